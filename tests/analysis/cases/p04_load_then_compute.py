import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,16384]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 16384), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 16384), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile, op=nl.exp, data=tile)  # expect: P04
    nisa.dma_copy(dst=out, src=tile)
    return out
