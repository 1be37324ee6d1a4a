import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: a=bf16[1024,4096] v=bf16[128,8]
@nki.jit
def kernel(a, v):
    out = nl.ndarray((8, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    vector = nl.ndarray((128, 8), dtype=v.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=vector, src=v)
    matrix = []
    for k in range(8):
        tile = nl.ndarray((128, 4096), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[k * 128 : (k + 1) * 128, :])
        matrix.append(tile)
    total = nl.ndarray((8, 512), dtype=nl.float32, buffer=nl.psum)
    for repeat in range(16):
        for k in range(8):
            for n in range(8):
                part = matrix[k][:, n * 512 : (n + 1) * 512]
                nisa.nc_matmul(dst=total, stationary=vector, moving=part)  # expect: P08
    result = nl.ndarray((8, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=out, src=result)
    return out
