import nki
import nki.isa as nisa
import nki.language as nl


def load(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512] index=u32[128,1]
@nki.jit
def broken(x, index):
    at = load(index)
    tile = nl.ndarray((64, 512), dtype=x.dtype, buffer=nl.sbuf)
    rows = [[512, 64], [1, 512]]
    nisa.dma_copy(dst=tile, src=x.ap(rows, vector_offset=at, indirect_dim=0))  # expect: R083 64

    return store(tile)


# accelopt: x=f32[128,512] index=u32[128,1]
@nki.jit
def valid(x, index):
    at = load(index)
    tile = nl.ndarray((64, 512), dtype=x.dtype, buffer=nl.sbuf)
    rows = [[512, 64], [1, 512]]
    nisa.dma_copy(dst=tile, src=x.ap(rows, vector_offset=at[0:64], indirect_dim=0))
    return store(tile)
