import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,8,64]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 8, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    total = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)  # expect: R068
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=0)  # expect: R068
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=2)
    nisa.dma_copy(dst=out, src=total)
    return out
