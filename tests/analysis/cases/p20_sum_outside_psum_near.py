import nki
import nki.isa as nisa
import nki.language as nl


# Products add up in PSUM; Vector sees the sum alone.
# accelopt: a=bf16[4096,256] b=bf16[4096,512] target=trn1
@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    partial = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for k in range(32):
        x = nl.ndarray((128, 256), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a[k * 128 : (k + 1) * 128, :])
        y = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=y, src=b[k * 128 : (k + 1) * 128, :])
        nisa.nc_matmul(dst=partial, stationary=x[:, 0:128], moving=y)
    nisa.tensor_tensor(dst=total, data1=total, data2=partial, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out
