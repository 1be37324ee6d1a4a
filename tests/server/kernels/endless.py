import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[128,512]
@nki.jit
def endless(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    count = 0
    while True:
        count += 1
    nisa.dma_copy(dst=out, src=tile)
    return out
