import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    return store(nl.load(x).reshape((128, 500)))  # expect: R080 500


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    return store(nl.load(x).reshape((128, 2, 256)))
