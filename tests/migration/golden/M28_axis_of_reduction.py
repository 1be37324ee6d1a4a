import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,4,512] nki-version=0.2
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 4), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 4, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    total = nl.ndarray((128, 4), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=2)
    nisa.dma_copy(dst=out, src=total)
    return out


# accelopt: x=f32[128,512] nki-version=0.2
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    total = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    nisa.dma_copy(dst=out, src=total)
    return out
