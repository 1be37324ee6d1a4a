import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: a_t=bf16[1024,2048] b=bf16[1024,4096]
@nki.jit
def kernel(a_t, b):
    out = nl.ndarray((2048, 4096), dtype=nl.float32, buffer=nl.shared_hbm)
    for m in range(16):
        for n in range(8):
            acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(8):
                left = nl.ndarray((128, 128), dtype=a_t.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=a_t[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=right, src=b[k * 128 : (k + 1) * 128, n * 512 : (n + 1) * 512])
                nisa.nc_matmul(dst=acc, stationary=left, moving=right)
            result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=acc)
            nisa.dma_copy(dst=out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], src=result)
    return out
