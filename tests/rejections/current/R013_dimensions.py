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
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    views = tile.reshape((128, 4, 4, 4, 4, 2))
    nisa.tensor_reduce(dst=out[:, 0:256], op=nl.add, data=views, axis=5)  # expect: R013 5 free axes
    return store(out[:, 0:64])


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = load(x)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    views = tile.reshape((128, 4, 4, 4, 8))
    nisa.tensor_reduce(dst=out[:, 0:64], op=nl.add, data=views, axis=4)
    return store(out[:, 0:64])
