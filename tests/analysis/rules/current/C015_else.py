import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for i in range(2):
        nisa.tensor_copy(dst=tile[:, i : i + 1], src=tile[:, 0:1])
        if i > 8:
            break
    else:
        axis = 1  # expect: C015 else
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for i in range(2):
        nisa.tensor_copy(dst=tile[:, i : i + 1], src=tile[:, 0:1])
    axis = 1
    nisa.dma_copy(dst=out, src=tile)
    return out
