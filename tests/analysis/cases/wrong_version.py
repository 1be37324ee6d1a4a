import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.5
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nl.fori_loop(0, 4, lambda i: nisa.tensor_copy(dst=tile, src=tile))  # expect: R104 C013
    nl.par_dim(128)  # expect: R104
    nisa.dma_copy(dst=out, src=tile)
    return out
