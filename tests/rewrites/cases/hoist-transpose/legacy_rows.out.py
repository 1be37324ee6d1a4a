# apply: {"over": "n"}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[256,256] w=f32[256,1024]
@nki.jit
def project(x, w):
  M, K = x.shape
  N = w.shape[1]
  TILE_M, TILE_K, TILE_N = 128, 128, 512
  out = nl.ndarray((M, N), dtype=x.dtype, buffer=nl.shared_hbm)
  for m in nl.affine_range(M // TILE_M):
    x_tile = nl.load(x[m * TILE_M:(m + 1) * TILE_M, 0:K])
    x_tileT = nl.ndarray((K // TILE_K, nl.par_dim(TILE_K), TILE_M), dtype=x_tile.dtype,
                         buffer=nl.sbuf)
    for k in nl.affine_range(K // TILE_K):
      x_tileT[k, :, :] = nl.copy(nl.transpose(x_tile[:, k * TILE_K:(k + 1) * TILE_K]))

    # One tile of columns after the other
    for n in nl.affine_range(N // TILE_N):
      acc = nl.zeros((TILE_M, TILE_N), nl.float32, buffer=nl.psum)
      for k in nl.affine_range(K // TILE_K):
        w_tile = nl.load(w[k * TILE_K:(k + 1) * TILE_K, n * TILE_N:(n + 1) * TILE_N])
        acc += nl.matmul(x_tileT[k, :, :], w_tile, transpose_x=True)
      res = nl.copy(acc, dtype=out.dtype)
      nl.store(out[m * TILE_M:(m + 1) * TILE_M, n * TILE_N:(n + 1) * TILE_N], value=res)
  return out
