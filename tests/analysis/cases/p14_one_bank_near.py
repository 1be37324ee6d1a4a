import nki
import nki.isa as nisa
import nki.language as nl


# A tile of its own in each iteration: the next product goes into another bank.
# accelopt: a=bf16[128,128] b=bf16[128,4096]
@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 4096), dtype=nl.float32, buffer=nl.shared_hbm)
    x = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    y = nl.ndarray((128, 4096), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=y, src=b)
    for j in range(64):
        acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        part = nl.ds(j % 8 * 512, 512)
        nisa.nc_matmul(dst=acc, stationary=x, moving=y[:, part])
        result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=acc)
        if j >= 56:
            nisa.dma_copy(dst=out[:, part], src=result)
    return out
