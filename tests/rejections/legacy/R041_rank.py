import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tile = nl.ndarray((128,), dtype=x.dtype, buffer=nl.sbuf)  # expect: R041 [128]
    return store(nl.load(x))


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.sbuf)
    tile[...] = nl.load(x[:, 0:1])
    return store(tile)
