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
    for row in tile:  # expect: R005
        nisa.tensor_copy(dst=row, src=row)
    return store(tile)


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = load(x)
    for i in range(2):
        nisa.tensor_copy(dst=tile[:, i : i + 1], src=tile[:, 0:1])
    return store(tile)
