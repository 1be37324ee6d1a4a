"""Softmax over the rows of a matrix as a first version: one instruction a formula step."""

import nki
import nki.isa as nisa
import nki.language as nl

P = 128


# accelopt: x=bf16[4096,2048]
@nki.jit
def softmax(x):
    """Return exp(x - max) / sum(exp(x - max)), row by row."""
    rows, columns = x.shape
    assert rows % P == 0
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)

    for i in range(rows // P):
        x_tile = nl.ndarray((P, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x_tile, src=x[i * P : (i + 1) * P, 0:columns])

        row_max = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=row_max, op=nl.maximum, data=x_tile, axis=1)
        shifted = nl.ndarray((P, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=shifted, data=x_tile, op0=nl.subtract, operand0=row_max)
        exponent = nl.ndarray((P, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=exponent, op=nl.exp, data=shifted)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=exponent, axis=1)
        inverse = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=total)
        out_tile = nl.ndarray((P, columns), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=out_tile, data=exponent, op0=nl.multiply, operand0=inverse)

        nisa.dma_copy(dst=out[i * P : (i + 1) * P, 0:columns], src=out_tile)

    return out
