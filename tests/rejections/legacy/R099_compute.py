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
    other = nl.exp(tile)  # expect: R099 tile (created on line 14)
    return store(other)


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    tile[...] = nl.load(x)
    return store(nl.exp(tile))
