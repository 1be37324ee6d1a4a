"""Memories and types by strings, an output in private memory."""

import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)  # stays behind the line
    nisa.dma_copy(dst=tile, src=x, dge_mode=nisa.dge_mode.swdge)
    nisa.dma_copy(dst=out, src=tile)
    return out
