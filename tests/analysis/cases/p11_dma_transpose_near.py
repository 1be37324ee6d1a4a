import nki
import nki.isa as nisa
import nki.language as nl


# From Trainium 2 on the DMA engines transpose blocks of elements in hardware.
# accelopt: x=f32[128,2048]
@nki.jit
def kernel(x):
    out = nl.ndarray((2048, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(dst=tile, src=x[:, i * 128 : (i + 1) * 128])
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=tile)
    return out
