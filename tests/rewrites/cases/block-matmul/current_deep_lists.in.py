# apply: {"block_m": 2, "block_n": 2, "block_k": 1}
import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: xT=bf16[256,512] w=bf16[256,1024]
@nki.jit
def project(xT, w):
    """Tiles of both operands are kept in lists already, but reloaded for each row of tiles."""
    K, M = xT.shape
    N = w.shape[1]
    out = nl.ndarray((M, N), dtype=xT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // 128):
        x_tiles = []
        for k in nl.affine_range(K // 128):
            x_tile = nl.ndarray((128, 128), dtype=xT.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=x_tile, src=xT[k * 128:(k + 1) * 128, m * 128:(m + 1) * 128])
            x_tiles.append(x_tile)
        for n in nl.affine_range(N // 512):
            w_tiles = []
            for k in nl.affine_range(K // 128):
                w_tile = nl.ndarray((128, 512), dtype=w.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=w_tile, src=w[k * 128:(k + 1) * 128, n * 512:(n + 1) * 512])
                w_tiles.append(w_tile)
            acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // 128):
                nisa.nc_matmul(dst=acc, stationary=x_tiles[k], moving=w_tiles[k])
            res = nl.ndarray((128, 512), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=res, src=acc)
            nisa.dma_copy(dst=out[m * 128:(m + 1) * 128, n * 512:(n + 1) * 512], src=res)
    return out
