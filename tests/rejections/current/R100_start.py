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
    nisa.activation(dst=out[0:48], op=nl.exp, data=tile[32:80])  # expect: R100 32
    return store(out[0:48])


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = load(x)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.activation(dst=out[0:48], op=nl.exp, data=tile[64:112])
    return store(out[0:48])
