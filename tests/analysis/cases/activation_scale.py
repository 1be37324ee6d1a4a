import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] s=bf16[128,1]
@nki.jit
def kernel(x, s):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    scale = nl.ndarray((128, 1), dtype=s.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=scale, src=s)
    nisa.activation(dst=tile, op=nl.exp, data=tile, scale=scale)  # expect: R003
    nisa.dma_copy(dst=out, src=tile)
    return out
