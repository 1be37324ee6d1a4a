import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    narrow = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=narrow, src=tile)  # expect: R027
    nisa.dma_copy(dst=out, src=narrow)  # expect: R027
    return out
