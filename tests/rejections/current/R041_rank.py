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
    tile = nl.ndarray((128,), dtype=x.dtype, buffer=nl.sbuf)  # expect: R041 [128]
    return x


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[:, 0:1])
    return store(tile)
