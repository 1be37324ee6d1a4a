import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    i, j = nl.mgrid[0:128, 0:512]
    tile = nl.load(x)
    return store(nisa.bn_stats(tile[i, j], mask=(j < 256)))  # expect: R044 256 of 512


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    i, j = nl.mgrid[0:128, 0:512]
    tile = nl.load(x)
    found = nl.zeros((128, 6), dtype=x.dtype, buffer=nl.sbuf)
    found[0:64, 0:6] = nisa.bn_stats(tile[0:64, 0:256])
    return store(found)
