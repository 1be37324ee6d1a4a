import nki
import nki.isa as nisa
import nki.language as nl


# A tile of its own in each iteration.
# accelopt: x=f32[4096,2048]
@nki.jit
def kernel(x):
    out = nl.ndarray((4096, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(32):
        tile = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=tile)
    return out
