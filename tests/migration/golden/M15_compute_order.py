import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] y=f32[128,512] nki-version=0.2
@nki.jit
def kernel(x, y):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_compute(out, [x, y], reduce_op=nl.add)
    return out


# accelopt: x=f32[128,512] y=f32[128,512] nki-version=0.3
@nki.jit
def near_miss(x, y):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_compute(out, [x, y], nl.add)
    return out
