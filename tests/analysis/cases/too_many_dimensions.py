import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,2,2,2,2,32]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 2, 2, 2, 2, 32), dtype=x.dtype, buffer=nl.sbuf)
    total = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=5)  # expect: R013
    nisa.dma_copy(dst=out, src=total)
    return out
