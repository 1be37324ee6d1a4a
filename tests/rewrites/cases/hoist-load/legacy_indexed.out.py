# apply: {"over": "n"}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: aT=bf16[256,256] b=bf16[256,1024]
@nki.jit
def product(aT, b):
  K, M = aT.shape
  K_, N = b.shape
  TILE = nl.tile_size.pmax
  out = nl.ndarray((M, N), dtype=aT.dtype, buffer=nl.shared_hbm)
  for m in nl.affine_range(M // TILE):
    a_tiles = nl.ndarray((K // TILE, nl.par_dim(TILE), TILE), dtype=aT.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(K // TILE):
      a_tiles[k, :, :] = nl.load(aT[k * TILE:(k + 1) * TILE, m * TILE:(m + 1) * TILE])

    for n in nl.affine_range(N // 512):
      acc = nl.zeros((TILE, 512), nl.float32, buffer=nl.psum)
      for k in nl.affine_range(K // TILE):
        # Both inputs arrive with K on partitions
        b_tile = nl.load(b[k * TILE:(k + 1) * TILE, n * 512:(n + 1) * 512])
        acc += nl.matmul(a_tiles[k, :, :], b_tile, transpose_x=True)
      nl.store(out[m * TILE:(m + 1) * TILE, n * 512:(n + 1) * 512], value=nl.copy(acc, dtype=out.dtype))
  return out
