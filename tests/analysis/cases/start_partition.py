import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    part = nl.ndarray((16, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=part, src=tile[16:32, :])  # expect: R100
    nisa.tensor_copy(dst=part, src=tile[32:48, :])
    nisa.dma_copy(dst=out[0:16, :], src=part)
    return out
