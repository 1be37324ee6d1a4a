from contextlib import nullcontext as timer

import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    with timer():  # expect: C007 no_reorder
        nisa.tensor_copy(dst=tile[:, 0:1], src=tile[:, 1:2])
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    with nl.no_reorder():
        nisa.tensor_copy(dst=tile[:, 0:1], src=tile[:, 1:2])
    nisa.dma_copy(dst=out, src=tile)
    return out
