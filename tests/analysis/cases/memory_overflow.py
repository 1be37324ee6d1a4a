import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,65536] target=trn1
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 65536), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 65536), dtype=x.dtype, buffer=nl.sbuf)  # expect: R051
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
