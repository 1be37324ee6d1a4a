import nki
import nki.isa as nisa
import nki.language as nl


# The same in bfloat16 takes one pass.
# accelopt: a=bf16[4096,256] b=bf16[4096,512]
@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for k in range(32):
        x = nl.ndarray((128, 256), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a[k * 128 : (k + 1) * 128, :])
        y = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=y, src=b[k * 128 : (k + 1) * 128, :])
        for again in range(32):
            nisa.nc_matmul(dst=acc, stationary=x[:, 0:128], moving=y)
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc)
    nisa.dma_copy(dst=out, src=result)
    return out
