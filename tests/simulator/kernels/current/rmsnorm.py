import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, weight, eps=1e-6):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    one = nl.ndarray((1, columns), dtype=weight.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=one, src=weight.reshape((1, columns)))
    scale = nl.broadcast_to(one, (128, columns))
    for start in range(0, rows, 128):
        count = min(128, rows - start)
        tile = nl.ndarray((count, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + count, :])
        square = nl.ndarray((count, columns), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((count, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=square, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total
        )
        nisa.tensor_scalar(total, total, nl.multiply, 1.0 / columns, op1=nl.add, operand1=eps)
        nisa.activation(dst=total, op=nl.rsqrt, data=total)
        result = nl.ndarray((count, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            dst=result,
            data=tile,
            op0=nl.multiply,
            operand0=total,
            op1=nl.multiply,
            operand1=scale[0:count, :],
        )
        nisa.dma_copy(dst=out[start : start + count], src=result)
    return out
