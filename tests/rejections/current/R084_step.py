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


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tile = load(x)

    def body(i):
        nisa.tensor_copy(dst=tile, src=tile)

    nl.fori_loop(0, 4, body, step=0)  # expect: R084 0
    return store(tile)


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = load(x)

    def body(i):
        nisa.tensor_copy(dst=tile, src=tile)

    nl.fori_loop(0, 4, body, step=2)
    return store(tile)
