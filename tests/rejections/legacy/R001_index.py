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
    part = nl.copy(tile[nl.arange(128), 0])  # expect: R001 two dimensions
    return store(part)


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.load(x)
    i = nl.arange(128)[:, None]
    part = nl.copy(tile[i, nl.arange(8)[None, :]])
    return store(part)
