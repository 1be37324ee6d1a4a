import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[32,65536]
@nki.jit
def kernel(x):
    out = nl.ndarray((32, 65536), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(8):
        tile = nl.ndarray((32, 8192), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, i * 8192 : (i + 1) * 8192])
        nisa.activation(dst=tile, op=nl.exp, data=tile)  # expect: P06
        nisa.dma_copy(dst=out[:, i * 8192 : (i + 1) * 8192], src=tile)
    return out
