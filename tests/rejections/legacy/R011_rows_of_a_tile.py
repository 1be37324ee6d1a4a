import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512] rows=i32[128,1]
@nki.jit
def broken(x, rows):
    tile = nl.load(x)
    places = nl.load(rows)
    i, j = nl.arange(128)[:, None], nl.arange(512)[None, :]
    return store(nl.copy(tile[places[i, 0], j]))  # expect: R011


# accelopt: x=f32[128,512] rows=i32[128,1]
@nki.jit
def valid(x, rows):
    places = nl.load(rows)
    i, j = nl.arange(128)[:, None], nl.arange(512)[None, :]
    return store(nl.load(x[places[i, 0], j]))
