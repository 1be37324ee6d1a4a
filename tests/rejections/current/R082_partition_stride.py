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
    return store(tile.ap([[1024, 64], [1, 512]]))  # expect: R082 1024


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = load(x)
    return store(tile.ap([[512, 64], [1, 256]]))
