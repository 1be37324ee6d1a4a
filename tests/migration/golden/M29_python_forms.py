import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x, sizes=(128, 512), scaled=True):
    out = nl.ndarray((sizes[0], sizes[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((sizes[0], sizes[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    if scaled == True:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near_miss(x, sizes=(128, 512), scale=None):
    out = nl.ndarray(sizes, dtype=x.dtype, buffer=nl.shared_hbm)
    if sizes[0] == 128 and scale == None:  # noqa: E711
        nisa.dma_copy(dst=out, src=x)
    return out
