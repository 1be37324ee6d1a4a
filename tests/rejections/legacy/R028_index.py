import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    i, j = nl.mgrid[0:128, 0:512]
    return store(nl.load(x[i, j + 1]))  # expect: R028 size 512


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    i, j = nl.mgrid[0:128, 0:512]
    tile = nl.zeros((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    tile[i, j] = nl.load(x[i, j + 1], mask=(j + 1 < 512))
    return store(tile)
