import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[2048,2048] y=bf16[128,2048]
@nki.jit
def kernel(x, y):
    out = nl.ndarray((2048, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(16):
        y_tile = nl.ndarray((128, 2048), dtype=y.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=y_tile, src=y)  # expect: P01
        x_tile = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x_tile, src=x[i * 128 : (i + 1) * 128, :])
        total = nl.ndarray((128, 2048), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=total, data1=x_tile, data2=y_tile, op=nl.add)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=total)
    return out
