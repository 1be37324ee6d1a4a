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


# accelopt: x=f32[128,512] rows=i32[128,1] n=i32[1,1]
@nki.jit
def broken(x, rows, n):
    places, first = load(rows), load(n)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    view = x.ap(
        [[512, 128], [1, 512]], vector_offset=places, scalar_offset=first, indirect_dim=0
    )  # expect: R083
    nisa.dma_copy(dst=tile, src=view)
    return store(tile)


# accelopt: x=f32[128,512] rows=i32[128,1] n=i32[1,1]
@nki.jit
def valid(x, rows, n):
    places = load(rows)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    view = x.ap([[512, 128], [1, 512]], vector_offset=places, indirect_dim=0)
    nisa.dma_copy(dst=tile, src=view)
    return store(tile)
