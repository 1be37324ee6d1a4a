"""Bodies of loops whose iterations only the device knows are checked all the same."""

import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] n=i32[1,1] nki-version=0.6
@nki.jit
def kernel(x, n):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    count = nisa.register_alloc()
    nisa.register_load(count, n)

    def body(i):
        large = nl.ndarray((256, 8), dtype=x.dtype, buffer=nl.sbuf)  # expect: R023
        nisa.memset(dst=large, value=0.0)

    def step(r):
        large = nl.ndarray((129, 8), dtype=x.dtype, buffer=nl.sbuf)  # expect: R023
        nisa.memset(dst=large, value=0.0)
        return r

    nl.fori_loop(0, count, body)
    nl.while_loop(count, step)
    for _ in nl.dynamic_range(count):  # expect: M33
        large = nl.ndarray((130, 8), dtype=x.dtype, buffer=nl.sbuf)  # expect: R023
        nisa.memset(dst=large, value=0.0)
    nisa.dma_copy(dst=out, src=tile)
    return out
