import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[128,1,64] nki-version=0.3
@nki.jit
def kernel(x):
    out = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(
        dst=tile.reshape((64, 1, 128)),
        src=x,
        axes=(2, 1, 0),
    )
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=bf16[128,1,64] nki-version=0.3
@nki.jit
def near_miss(x):
    out = nl.ndarray((64, 1, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 1, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=tile, src=x, axes=(2, 1, 0))
    nisa.dma_copy(dst=out, src=tile)
    return out
