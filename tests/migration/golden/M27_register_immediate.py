import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[4,128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    which = nisa.register_alloc(0)
    nisa.register_move(which, src=nisa.register_alloc(3))
    nisa.register_move(which, src=nisa.register_alloc(2))
    nisa.dma_copy(dst=out, src=x.select(0, which))
    return out
