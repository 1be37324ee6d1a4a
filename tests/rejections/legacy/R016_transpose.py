import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[256,64] rows=i32[64,1]
@nki.jit
def broken(x, rows):
    places = nl.load(rows)
    j = nl.arange(64)[None, :]
    return store(nl.load_transpose2d(x[places[nl.arange(64)[:, None], 0], j]))  # expect: R016


# accelopt: x=f32[256,64] rows=i32[64,1]
@nki.jit
def valid(x, rows):
    places = nl.load(rows)
    j = nl.arange(64)[None, :]
    return store(nl.load(x[places[nl.arange(64)[:, None], 0], j]))
