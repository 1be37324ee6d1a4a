import nki
import nki.isa as nisa
import nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=bf16[24,128]
@nki.jit
def broken(x):
    tile = nl.ndarray((128, 24), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=tile, src=x, dge_mode=nisa.dge_mode.hwdge)  # expect: R066 24
    return store(tile)


# accelopt: x=bf16[24,128]
@nki.jit
def valid(x):
    tile = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=tile, src=x[0:16, :], dge_mode=nisa.dge_mode.hwdge)
    return store(tile)
