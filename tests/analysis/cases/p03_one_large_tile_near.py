import nki
import nki.isa as nisa
import nki.language as nl


# The same in parts: Vector works on one while Scalar makes the next.
# accelopt: x=bf16[128,16384]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 16384), dtype=x.dtype, buffer=nl.shared_hbm)
    for j in range(8):
        tile = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, j * 2048 : (j + 1) * 2048])
        exponent = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=exponent, op=nl.exp, data=tile)
        result = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=result, data1=exponent, data2=tile, op=nl.multiply)
        nisa.dma_copy(dst=out[:, j * 2048 : (j + 1) * 2048], src=result)
    return out
