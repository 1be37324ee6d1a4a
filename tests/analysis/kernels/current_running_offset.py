import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,4096]
@nki.jit
def kernel(x):
    """An offset that grows by a constant, and a step that does not."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    offset = 0
    for _ in range(8):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, offset : offset + 512])
        nisa.dma_copy(dst=out[:, offset : offset + 512], src=tile)
        offset += 512
    width, start = 64, 0
    while start + width <= 1024:
        tile = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, start : start + width])
        nisa.dma_copy(dst=out[:, start : start + width], src=tile)
        start += width
        width *= 2
    return out
