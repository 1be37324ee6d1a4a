import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def trip(x):
    flags = nl.zeros((128, 512), dtype=nl.bool_, buffer=nl.sbuf)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    inverse = nl.invert(flags)  # expect: R056 int8
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    flags = nl.zeros((128, 512), dtype=nl.int8, buffer=nl.sbuf)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    inverse = nl.invert(flags)
    nisa.dma_copy(dst=out, src=tile)
    return out
