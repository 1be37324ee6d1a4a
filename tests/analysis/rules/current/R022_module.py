import nki
import nki.isa as nisa
import nki.language as nl

zeros = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.sbuf)  # expect: R022 nl.zeros
WIDTH = nl.tile_size.pmax


# accelopt: x=f32[128,512]
@nki.jit
def other(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
