"""RMSNorm over the rows of a matrix as a first version: one instruction a formula step."""

import nki
import nki.isa as nisa
import nki.language as nl

P = 128


# accelopt: x=bf16[4096,2048] gamma=bf16[2048]
@nki.jit
def rmsnorm(x, gamma, eps=1e-6):
    """Return x / sqrt(mean(x^2) + eps) * gamma; the mean runs over each row."""
    rows, columns = x.shape
    assert rows % P == 0
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)

    for i in range(rows // P):
        x_tile = nl.ndarray((P, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x_tile, src=x[i * P : (i + 1) * P, 0:columns])
        gamma_row = nl.ndarray((1, columns), dtype=gamma.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=gamma_row, src=gamma.reshape((1, columns)))
        gamma_tile = nl.broadcast_to(gamma_row, (P, columns))

        squares = nl.ndarray((P, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=squares, op=nl.square, data=x_tile)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=1)
        mean = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=mean, data=total, op0=nl.multiply, operand0=1.0 / columns)
        shifted = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=shifted, data=mean, op0=nl.add, operand0=eps)
        scale = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=scale, op=nl.rsqrt, data=shifted)

        normed = nl.ndarray((P, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=normed, data=x_tile, op0=nl.multiply, operand0=scale)
        out_tile = nl.ndarray((P, columns), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=out_tile, data1=normed, data2=gamma_tile, op=nl.multiply)
        nisa.dma_copy(dst=out[i * P : (i + 1) * P, 0:columns], src=out_tile)

    return out
