import nki
import nki.isa as nisa
import nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tile = nl.ndarray((128, 8), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=-1)  # expect: R067 -1
    return store(tile)


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.ndarray((128, 8), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=255)
    return store(tile)
