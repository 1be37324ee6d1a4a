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


# accelopt: x=f32[128,512] nki-version=0.4
@nki.jit
def broken(x):
    return store(nisa.tensor_copy_dynamic_src(load(x), load(x)))  # expect: R104 up to NKI 0.3.0


# accelopt: x=f32[128,512] nki-version=0.4
@nki.jit
def valid(x):
    return store(load(x))
