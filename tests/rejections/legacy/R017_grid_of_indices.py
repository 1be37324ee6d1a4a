import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,256] columns=i32[128,256]
@nki.jit
def broken(x, columns):
    places = nl.load(columns)
    i, j = nl.mgrid[0:128, 0:256]
    return store(nl.load(x[i, places[i, j]]))  # expect: R017 [128, 256]


# accelopt: x=f32[128,256] columns=i32[128,256]
@nki.jit
def valid(x, columns):
    places = nl.load(columns)
    i, j = nl.arange(128)[:, None], nl.arange(256)[None, :]
    return store(nl.load(x[places[i, 0], j]))
