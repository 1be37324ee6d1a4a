import nki
import nki.isa as nisa
import nki.language as nl


# Rows of 4 KiB on all partitions.
# accelopt: x=bf16[2048,2048]
@nki.jit
def kernel(x):
    out = nl.ndarray((2048, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(16):
        tile = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=tile)
    return out
