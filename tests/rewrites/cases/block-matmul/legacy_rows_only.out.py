# apply: {"block_m": 4}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

TILE_M, TILE_K = 128, 128


# accelopt: xT=bf16[256,1024] w=bf16[256,512] bias=f32[1024,1]
@nki.jit
def linear(xT, w, bias):
    K, M = xT.shape
    N = w.shape[1]
    out = nl.ndarray((M, N), dtype=xT.dtype, buffer=nl.shared_hbm)

    # Output tiles per block: the larger, the fewer reloads.
    TILES_IN_BLOCK_M = 4
    BLOCK_M = TILES_IN_BLOCK_M * TILE_M

    # The whole width fits one PSUM bank, so there is no loop over columns
    w_block = nl.ndarray((K // TILE_K, nl.par_dim(TILE_K), N), dtype=w.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(K // TILE_K):
        w_block[k, :, :] = nl.load(w[nl.ds(k * TILE_K, TILE_K), 0:N])

    for m_block in nl.sequential_range(M // BLOCK_M):
        x_block = nl.ndarray((K // TILE_K, nl.par_dim(TILE_K), BLOCK_M), dtype=xT.dtype,
                             buffer=nl.sbuf)
        for k in nl.affine_range(K // TILE_K):
            x_block[k, :, :] = nl.load(xT[nl.ds(k * TILE_K, TILE_K),
                                          nl.ds(m_block * BLOCK_M, BLOCK_M)])

        for m_tile in nl.sequential_range(TILES_IN_BLOCK_M):
            m = m_block * TILES_IN_BLOCK_M + m_tile
            # Rows of the bias belong to this tile
            bias_tile = nl.load(bias[nl.ds(m * TILE_M, TILE_M), 0:1])
            acc = nl.zeros((TILE_M, N), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // TILE_K):
                acc += nl.matmul(x_block[k, :, nl.ds(m_tile * TILE_M, TILE_M)], w_block[k, :, :],
                                 transpose_x=True)
            res = nl.add(acc, bias_tile, dtype=out.dtype)
            nl.store(out[nl.ds(m * TILE_M, TILE_M), 0:N], value=res)
    return out
