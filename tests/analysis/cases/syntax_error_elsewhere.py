import nki
import nki.isa as nisa
import nki.language as nl


def broken(:  # expect: S001
    return 1


# accelopt: x=f32[256,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.sbuf)  # expect: R023
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
