import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=nl.uint8, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=-1)  # expect: R067
    nisa.dma_copy(dst=out, src=tile)
    return out
