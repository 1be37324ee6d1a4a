import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def trip(x, text="4"):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    width = eval(text)  # expect: C011 eval
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x, text="4"):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    width = int(text)
    nisa.dma_copy(dst=out, src=tile)
    return out
