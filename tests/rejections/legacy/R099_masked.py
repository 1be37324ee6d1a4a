import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tile = nl.load(x)
    other = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    i, j = nl.mgrid[0:128, 0:512]
    return store(nl.add(tile[i, j], other[i, j], mask=(j < 256)))  # expect: R099 created on line 15


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.load(x)
    other = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    i, j = nl.mgrid[0:128, 0:512]
    other[i, j] = nl.copy(tile[i, j], mask=(j < 256))
    total = nl.zeros((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    total[i, j] = nl.add(tile[i, j], other[i, j], mask=(j < 256))
    return store(total)
