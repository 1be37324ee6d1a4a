import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[256,512]
@nki.jit
def broken(x):
    return store(nl.load(x))  # expect: R023 256


# accelopt: x=f32[256,512]
@nki.jit
def valid(x):
    return store(nl.load(x[0:128]))
