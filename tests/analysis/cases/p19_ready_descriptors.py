import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[4096,2048]
@nki.jit
def kernel(x):
    out = nl.ndarray((4096, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(32):
        tile = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        rows = nl.ds(i * 128, 128)
        nisa.dma_copy(dst=tile, src=x[rows, :], dge_mode=nisa.dge_mode.none)  # expect: P19
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[rows, :], src=tile)
    return out
