import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512] y=f32[128,512]
@nki.jit
def broken(x, y):
    nl.store(y, value=nl.load(x))  # expect: R009 parameter y
    return store(nl.load(x))


# accelopt: x=f32[128,512] y=f32[128,512]
@nki.jit
def valid(x, y):
    nl.store(y, value=nl.load(x))
