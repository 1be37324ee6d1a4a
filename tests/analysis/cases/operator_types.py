import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=i32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(tile, tile, nl.bitwise_and, 15, op1=nl.left_shift, operand1=2)
    nisa.tensor_scalar(tile, tile, nl.bitwise_and, 15, op1=nl.add, operand1=2)  # expect: R097
    nisa.dma_copy(dst=out, src=tile)
    return out
