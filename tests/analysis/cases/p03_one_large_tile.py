import nki
import nki.isa as nisa
import nki.language as nl


# Vector begins when Scalar has finished all of the tile.
# accelopt: x=bf16[128,16384]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 16384), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 16384), dtype=x.dtype, buffer=nl.sbuf)
    for j in range(8):
        nisa.dma_copy(
            dst=tile[:, j * 2048 : (j + 1) * 2048], src=x[:, j * 2048 : (j + 1) * 2048]
        )
    exponent = nl.ndarray((128, 16384), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=exponent, op=nl.exp, data=tile)
    result = nl.ndarray((128, 16384), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=exponent, data2=tile, op=nl.multiply)  # expect: P03
    for j in range(8):
        nisa.dma_copy(
            dst=out[:, j * 2048 : (j + 1) * 2048], src=result[:, j * 2048 : (j + 1) * 2048]
        )
    return out
