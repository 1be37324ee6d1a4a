import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] target=trn1
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=1.0)  # expect: R002
    nisa.dma_copy(dst=out, src=tile)
    return out
