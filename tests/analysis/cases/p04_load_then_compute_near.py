import nki
import nki.isa as nisa
import nki.language as nl


# The same in eight parts, of which one is loaded while another is computed.
# accelopt: x=f32[128,16384]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 16384), dtype=x.dtype, buffer=nl.shared_hbm)
    for j in range(8):
        tile = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, j * 2048 : (j + 1) * 2048])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[:, j * 2048 : (j + 1) * 2048], src=tile)
    return out
