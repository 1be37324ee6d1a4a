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


# accelopt: x=f32[128,512] n=i32[1,1]
@nki.jit
def broken(x, n):
    count = nisa.register_alloc()
    nisa.register_load(count, n)
    if count:  # expect: R012 while
        return x
    return store(load(x))


# accelopt: x=f32[128,512] n=i32[1,1]
@nki.jit
def valid(x, n):
    count = nisa.register_alloc()
    nisa.register_load(count, n)
    tile = load(x)

    def body(i):
        nisa.tensor_copy(dst=tile, src=tile)

    nl.fori_loop(0, count, body)
    return store(tile)
