import nki
import nki.isa as nisa
import nki.language as nl


# One finding for all tiles of a loop.
# accelopt: x=f32[4096,2048] y=f32[4096,2048]
@nki.jit
def kernel(x, y):
    out = nl.ndarray((4096, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    first = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
    second = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)  # expect: P24
    for i in range(32):
        nisa.dma_copy(dst=first, src=x[i * 128 : (i + 1) * 128, :])
        nisa.dma_copy(dst=second, src=y[i * 128 : (i + 1) * 128, :])
        nisa.tensor_tensor(dst=second, data1=first, data2=second, op=nl.add)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=second)
    return out
