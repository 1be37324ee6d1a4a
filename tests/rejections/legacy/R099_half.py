import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    tile[0:128, 0:256] = nl.load(x[0:128, 0:256])
    total = nl.sum(tile, axis=1)  # expect: R099 parts of tile (created on line 14)
    return store(total)


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    tile[0:128, 0:256] = nl.load(x[0:128, 0:256])
    return store(nl.sum(tile[0:128, 0:256], axis=1))
