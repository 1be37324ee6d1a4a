# expect: timeout line=13 did not end
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    import numpy as np

    np.ones((9000, 12000)) @ np.ones((12000, 9000))
    nl.store(out, tile)
    return out
