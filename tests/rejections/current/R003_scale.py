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


# accelopt: x=f32[128,512] s=bf16[128,1]
@nki.jit
def broken(x, s):
    tile = load(x)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    scale = load(s)
    nisa.activation(dst=out, op=nl.exp, data=tile, scale=scale)  # expect: R003 bfloat16
    return store(out)


# accelopt: x=f32[128,512] s=bf16[128,1]
@nki.jit
def valid(x, s):
    tile = load(x)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    scale = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=scale, src=s)
    nisa.activation(dst=out, op=nl.exp, data=tile, scale=scale)
    return store(out)
