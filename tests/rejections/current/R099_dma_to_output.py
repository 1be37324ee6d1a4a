import nki
import nki.isa as nisa
import nki.language as nl


def load(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tile = load(x)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    result = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=result, src=out)  # expect: R099 out (created on line 16)
    return result


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = load(x)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out, src=tile)
    result = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=result, src=out)
    return result
