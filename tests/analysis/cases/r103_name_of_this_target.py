import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] target=trn2
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activate(dst=tile, op=nl.exp, data=tile)  # expect: R103
    nisa.dma_copy(dst=out, src=tile)
    return out
