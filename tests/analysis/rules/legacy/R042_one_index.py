import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,1]
@nki.jit
def trip(x):
    out = nl.ndarray((64, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, value=tile[0:64])  # expect: R042 [128, 1]
    return out


# accelopt: x=f32[128,1]
@nki.jit
def near(x):
    out = nl.ndarray((64, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, value=tile[0:64, 0:1])
    return out
