"""Memories and types by strings, an output in private memory."""

import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype="float32", buffer="hbm")
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer="sbuf")  # stays behind the line
    nisa.dma_copy(dst=tile, src=x, dge_mode=1)
    nisa.dma_copy(dst=out, src=tile)
    return out
