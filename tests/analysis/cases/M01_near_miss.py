"""A legacy kernel that nobody wants to migrate: nothing is said."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


# accelopt: x=f32[200,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((200, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.arange(128)[:, None]
    f = nl.arange(512)[None, :]
    for i in nl.affine_range(2):
        tile = nl.load(x[i * 128 + p, f], mask=(i * 128 + p < 200))
        twice = nisa.tensor_scalar(tile, np.multiply, 2.0, dtype=np.float32)
        nl.store(out[i * 128 + p, f], value=twice, mask=(i * 128 + p < 200))
    return out
