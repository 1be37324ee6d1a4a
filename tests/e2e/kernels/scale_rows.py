"""A kernel for the editor test: small, correct, and with room to be faster."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[512,1024] weight=f32[1,1024]
@nki.jit
def scale_rows(x, weight):
    out = nl.ndarray((512, 1024), dtype=x.dtype, buffer=nl.shared_hbm)
    for row in nl.affine_range(4):
        for block in nl.affine_range(16):
            columns = nl.ds(block * 64, 64)
            tile = nl.load(x[nl.ds(row * 128, 128), columns])
            scale = nl.load(weight[0:1, columns])
            scaled = nl.multiply(tile, nl.broadcast_to(scale, shape=(128, 64)))
            nl.store(out[nl.ds(row * 128, 128), columns], nl.exp(scaled))
    return out
