import nki
import nki.isa as nisa
import nki.language as nl


def broken():
    nisa.register_alloc()  # expect: R022 register_alloc


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    nisa.register_alloc()
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return x
