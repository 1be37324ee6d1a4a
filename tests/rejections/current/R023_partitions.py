import nki
import nki.isa as nisa
import nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[256,512]
@nki.jit
def broken(x):
    tile = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.sbuf)  # expect: R023 256
    nisa.dma_copy(dst=tile, src=x)
    return store(tile)


# accelopt: x=f32[256,512]
@nki.jit
def valid(x):
    tile = nl.ndarray((128, 2, 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(2):
        nisa.dma_copy(dst=tile[:, i, :], src=x[i * 128 : (i + 1) * 128, :])
    return store(tile)
