import nki
import nki.isa as nisa
import nki.language as nl


# The tile is used after the loop as well, so it cannot simply move inside.
# accelopt: x=f32[4096,2048]
@nki.jit
def kernel(x):
    out = nl.ndarray((4096, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    last = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)  # expect: P04
    for i in range(32):
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=tile)
    nisa.dma_copy(dst=last, src=tile)
    return out, last
