import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    i = nl.arange(128)[:, None]
    if i < 64:  # expect: R010 mask
        return x
    return store(nl.load(x))


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    i, j = nl.mgrid[0:128, 0:512]
    tile = nl.zeros((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    tile[i, j] = nl.load(x[i, j], mask=(i < 64))
    return store(tile)
