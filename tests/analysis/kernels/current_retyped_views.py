"""Views as a wider type, at places that depend on the iteration, and with dimensions of one."""

import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[4,6,8] target=trn2
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(4):
        part = x.select(0, i)[:, :].view(nl.float32)
        tile = nl.ndarray(part.shape, dtype=part.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=part)
    for i in range(4):
        part = x.reshape_dim(1, (6, 1))[i, :, :, 2 * (i % 2) : 2 * (i % 2) + 4].view(nl.float32)
        tile = nl.ndarray(part.shape, dtype=part.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=part)
    return out
