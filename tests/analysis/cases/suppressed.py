import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[256,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.sbuf)  # accelopt: ignore[R023]
    other = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.sbuf)  # accelopt: ignore
    third = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.sbuf)  # accelopt: ignore[P10]
    # expect-above: R023
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=other, src=x)
    nisa.dma_copy(dst=third, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
