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

    # Output tiles per block: the larger, the fewer reloads.
    TILES_IN_BLOCK_M = 2
    BLOCK_M = TILES_IN_BLOCK_M * 128
    TILES_IN_BLOCK_K = 1

    for m_block in nl.affine_range(M // BLOCK_M):
        sums = []
        for m_tile in nl.affine_range(TILES_IN_BLOCK_M):
            sum_tile = nl.ndarray((128, N), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=sum_tile, value=0.0)
            sums.append(sum_tile)

        for k_block in nl.sequential_range(K // 128 // TILES_IN_BLOCK_K):
            x_block = []
            for k_tile in nl.affine_range(TILES_IN_BLOCK_K):
                k = k_block * TILES_IN_BLOCK_K + k_tile
                x_wide = nl.ndarray((128, BLOCK_M), dtype=xT.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=x_wide,
                              src=xT[k * 128:(k + 1) * 128,
                                     m_block * BLOCK_M:(m_block + 1) * BLOCK_M])
                x_block.append(x_wide)

            w_block = []
            for k_tile in nl.affine_range(TILES_IN_BLOCK_K):
                k = k_block * TILES_IN_BLOCK_K + k_tile
                w_wide = nl.ndarray((128, N), dtype=w.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=w_wide, src=w[k * 128:(k + 1) * 128, 0:N])
                w_block.append(w_wide)

            for m_tile in nl.affine_range(TILES_IN_BLOCK_M):
                for n in nl.affine_range(N // 512):
                    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
                    for k_tile in nl.affine_range(TILES_IN_BLOCK_K):
                        nisa.nc_matmul(dst=acc,
                                       stationary=x_block[k_tile][:,
                                                                  m_tile * 128:(m_tile + 1) * 128],
                                       moving=w_block[k_tile][:, n * 512:(n + 1) * 512])
                    nisa.tensor_tensor(dst=sums[m_tile][:, n * 512:(n + 1) * 512],
                                       data1=sums[m_tile][:, n * 512:(n + 1) * 512], data2=acc,
                                       op=nl.add)

        for m_tile in nl.affine_range(TILES_IN_BLOCK_M):
            for n in nl.affine_range(N // 512):
                m = m_block * TILES_IN_BLOCK_M + m_tile
                res = nl.ndarray((128, 512), dtype=out.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=res, src=sums[m_tile][:, n * 512:(n + 1) * 512])
                nisa.dma_copy(dst=out[m * 128:(m + 1) * 128, n * 512:(n + 1) * 512], src=res)
    return out
