import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[2048,2048]
@nki.jit
def kernel(x):
    out = nl.ndarray((2048, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(16):
        for j in range(32):
            tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(
                dst=tile, src=x[i * 128 : (i + 1) * 128, j * 64 : (j + 1) * 64]
            )  # expect-above: P10
            nisa.dma_copy(
                dst=out[i * 128 : (i + 1) * 128, j * 64 : (j + 1) * 64], src=tile
            )  # expect-above: P10
    return out
