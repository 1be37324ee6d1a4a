import nki
import nki.isa as nisa
import nki.language as nl


# Every byte of x is loaded once; the row w is loaded once for all.
# accelopt: x=bf16[4096,2048] w=bf16[128,2048]
@nki.jit
def kernel(x, w):
    out = nl.ndarray((4096, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    b = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=b, src=w)
    for m in range(32):
        a = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=a, src=x[m * 128 : (m + 1) * 128, :])
        c = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)
        nisa.dma_copy(dst=out[m * 128 : (m + 1) * 128, :], src=c)
    return out
