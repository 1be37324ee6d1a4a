# apply: {"over": "h"}
import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[256,1024] w=bf16[256,512]
@nki.jit
def heads(x, w):
    """Every head multiplies the same weights."""
    K, width = x.shape
    N = w.shape[1]
    out = nl.ndarray((width, N), dtype=x.dtype, buffer=nl.shared_hbm)
    for h in range(width // 128):
        first = h * 128
        acc = nl.ndarray((128, N), dtype=nl.float32, buffer=nl.psum)
        for k in range(K // 128):
            row = k * 128
            x_tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=x_tile, src=x[row:row + 128, first:first + 128])
            w_tile = nl.ndarray((128, N), dtype=w.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=w_tile, src=w[row:row + 128, 0:N])
            nisa.nc_matmul(dst=acc, stationary=x_tile, moving=w_tile[:, 0:N])
        res = nl.ndarray((128, N), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=res, src=acc)
        nisa.dma_copy(dst=out[first:first + 128, 0:N], src=res)
    return out
