import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: a_t=bf16[1024,2048] b=bf16[1024,4096]
@nki.jit
def kernel(a_t, b):
    out = nl.ndarray((2048, 4096), dtype=nl.float32, buffer=nl.shared_hbm)
    left = []
    for k in range(8):
        tile = nl.ndarray((128, 2048), dtype=a_t.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a_t[k * 128 : (k + 1) * 128, :])
        left.append(tile)
    for n in range(2):
        right = []
        for k in range(8):
            tile = nl.ndarray((128, 2048), dtype=b.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=b[k * 128 : (k + 1) * 128, n * 2048 : (n + 1) * 2048])
            right.append(tile)
        for m in range(16):
            result = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
            for j in range(4):
                acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
                for k in range(8):
                    nisa.nc_matmul(
                        dst=acc,
                        stationary=left[k][:, m * 128 : (m + 1) * 128],
                        moving=right[k][:, j * 512 : (j + 1) * 512],
                    )
                nisa.tensor_copy(dst=result[:, j * 512 : (j + 1) * 512], src=acc)
            nisa.dma_copy(dst=out[m * 128 : (m + 1) * 128, n * 2048 : (n + 1) * 2048], src=result)
    return out
