import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[256,8,64] gamma=f32[512]
@nki.jit
def kernel(x, gamma):
    """Reshapes, integer indices and whole-tensor views of HBM and SBUF."""
    rows, heads, size = x.shape
    flat = x.reshape((rows, heads * size))
    out = nl.ndarray((rows, heads * size), dtype=x.dtype, buffer=nl.shared_hbm)
    gamma_row = nl.ndarray((1, heads * size), dtype=gamma.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=gamma_row, src=gamma.reshape((1, heads * size)))
    gamma_tile = nl.broadcast_to(gamma_row, (128, heads * size))
    for i in range(rows // 128):
        tile = nl.ndarray((128, heads, size), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        for h in range(heads):
            nisa.tensor_scalar(
                dst=tile[:, h, :], data=tile[:, h, :], op0=nl.multiply, operand0=float(h)
            )
        total = nl.ndarray((128, heads), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=2)
        result = nl.ndarray((128, heads * size), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=result, src=flat[i * 128 : (i + 1) * 128, :])
        nisa.tensor_tensor(dst=result, data1=result, data2=gamma_tile, op=nl.multiply)
        nisa.tensor_tensor(
            dst=result, data1=result, data2=tile.reshape((128, heads * size)), op=nl.add
        )
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=result)
    return out
