import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[128,128]~uniform y=bf16[128,512]~uniform
@nki.jit
def kernel(x, y):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    right = nl.ndarray((128, 512), dtype=y.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=x)
    nisa.dma_copy(dst=right, src=y)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=left, moving=right)
    root = nl.ndarray(total.shape, dtype=total.dtype, buffer=nl.sbuf)
    nisa.activation(dst=root, op=nl.rsqrt, data=total)
    copied = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copied, src=root)
    nisa.dma_copy(dst=out, src=nl.rsqrt(copied))
    return out
