# apply: {"block_m": 2, "block_n": 2, "block_k": 1}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: a_t=bf16[256,512] b=bf16[256,2048]
@nki.jit
def product(a_t, b):
  K, M = a_t.shape
  _, N = b.shape
  TM, TK, TN = 128, 128, 512
  out = nl.ndarray((M, N), dtype=a_t.dtype, buffer=nl.shared_hbm)

  # Output tiles per block: the larger, the fewer reloads.
  TILES_IN_BLOCK_M = 2
  BLOCK_M = TILES_IN_BLOCK_M * TM
  TILES_IN_BLOCK_N = 2
  BLOCK_N = TILES_IN_BLOCK_N * TN
  TILES_IN_BLOCK_K = 1

  # One output tile after the other
  for m_block in nl.affine_range(M // BLOCK_M):
    for n_block in nl.affine_range(N // BLOCK_N):
      sums = nl.zeros((TILES_IN_BLOCK_M, nl.par_dim(TM), BLOCK_N), dtype=nl.float32, buffer=nl.sbuf)

      for k_block in nl.sequential_range(K // TK // TILES_IN_BLOCK_K):
        a_block = nl.ndarray((TILES_IN_BLOCK_K, nl.par_dim(TK), BLOCK_M), dtype=a_t.dtype,
                             buffer=nl.sbuf)
        for k_tile in nl.affine_range(TILES_IN_BLOCK_K):
          k = k_block * TILES_IN_BLOCK_K + k_tile
          a_block[k_tile, :, :] = nl.load(a_t[k * TK:(k + 1) * TK,
                                              m_block * BLOCK_M:(m_block + 1) * BLOCK_M])

        b_block = nl.ndarray((TILES_IN_BLOCK_K, nl.par_dim(TK), BLOCK_N), dtype=b.dtype,
                             buffer=nl.sbuf)
        for k_tile in nl.affine_range(TILES_IN_BLOCK_K):
          k = k_block * TILES_IN_BLOCK_K + k_tile
          b_block[k_tile, :, :] = nl.load(b[k * TK:(k + 1) * TK,
                                            n_block * BLOCK_N:(n_block + 1) * BLOCK_N])

        for m_tile in nl.affine_range(TILES_IN_BLOCK_M):
          for n_tile in nl.affine_range(TILES_IN_BLOCK_N):
            acc = nl.zeros((TM, TN), nl.float32, buffer=nl.psum)
            for k_tile in nl.affine_range(TILES_IN_BLOCK_K):
              acc += nl.matmul(a_block[k_tile, :, m_tile * TM:(m_tile + 1) * TM],
                               b_block[k_tile, :, n_tile * TN:(n_tile + 1) * TN], transpose_x=True)
            sums[m_tile, :, n_tile * TN:(n_tile + 1) * TN] += acc

      for m_tile in nl.affine_range(TILES_IN_BLOCK_M):
        for n_tile in nl.affine_range(TILES_IN_BLOCK_N):
          m = m_block * TILES_IN_BLOCK_M + m_tile
          n = n_block * TILES_IN_BLOCK_N + n_tile
          # Cast and store
          res = nl.copy(sums[m_tile, :, n_tile * TN:(n_tile + 1) * TN], dtype=out.dtype)
          nl.store(out[m * TM:(m + 1) * TM, n * TN:(n + 1) * TN], value=res)

  return out
