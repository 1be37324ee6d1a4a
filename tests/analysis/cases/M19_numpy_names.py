import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=np.float32, buffer=nl.shared_hbm)  # expect: M19
    tile = nl.load(x)
    twice = nisa.tensor_scalar(tile, np.multiply, 2.0)  # expect: M02
    nl.store(out, value=twice)
    return out


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.multiply(nl.load(x), float(np.sqrt(2.0))))
    return out
