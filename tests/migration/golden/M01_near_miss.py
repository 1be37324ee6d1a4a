"""A legacy kernel that nobody wants to migrate: nothing is said."""

import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[200,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((200, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        rows = min(128, 200 - i * 128)
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile[0:rows, 0:512], src=x[i * 128 : i * 128 + rows, 0:512])
        twice = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=twice, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[i * 128 : i * 128 + rows, 0:512], src=twice[0:rows, 0:512])
    return out
