# apply: {"block_m": 2, "block_n": 1, "resident": "moving"}
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

    # Output tiles per block: the larger, the fewer reloads.
    TILES_IN_BLOCK_M = 2
    BLOCK_M = TILES_IN_BLOCK_M * 128

    for n in nl.affine_range(N // 512):
        w_block = []
        for k in nl.affine_range(K // 128):
            w_wide = nl.ndarray((128, 512), dtype=w.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=w_wide, src=w[k * 128:(k + 1) * 128, n * 512:(n + 1) * 512])
            w_block.append(w_wide)

        for m_block in nl.affine_range(M // BLOCK_M):
            x_block = []
            for k in nl.affine_range(K // 128):
                x_wide = nl.ndarray((128, BLOCK_M), dtype=xT.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=x_wide,
                              src=xT[k * 128:(k + 1) * 128,
                                     m_block * BLOCK_M:(m_block + 1) * BLOCK_M])
                x_block.append(x_wide)

            for m_tile in nl.affine_range(TILES_IN_BLOCK_M):
                m = m_block * TILES_IN_BLOCK_M + m_tile
                acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
                for k in nl.affine_range(K // 128):
                    nisa.nc_matmul(dst=acc,
                                   stationary=x_block[k][:, m_tile * 128:(m_tile + 1) * 128],
                                   moving=w_block[k])
                res = nl.ndarray((128, 512), dtype=out.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=res, src=acc)
                nisa.dma_copy(dst=out[m * 128:(m + 1) * 128, n * 512:(n + 1) * 512], src=res)
    return out
