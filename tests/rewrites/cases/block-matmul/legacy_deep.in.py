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

  # One output tile after the other
  for m in nl.affine_range(M // TM):
    for n in nl.affine_range(N // TN):
      acc = nl.zeros((TM, TN), nl.float32, buffer=nl.psum)

      for k in nl.affine_range(K // TK):
        # Tiles of both inputs
        a_tile = nl.ndarray((TK, TM), dtype=a_t.dtype, buffer=nl.sbuf)
        b_tile = nl.ndarray((TK, TN), dtype=b.dtype, buffer=nl.sbuf)
        a_tile[...] = nl.load(a_t[k * TK:(k + 1) * TK, m * TM:(m + 1) * TM])
        b_tile[...] = nl.load(b[k * TK:(k + 1) * TK, n * TN:(n + 1) * TN])

        # Products add up in PSUM
        acc += nl.matmul(a_tile[...], b_tile[...], transpose_x=True)

      # Cast and store
      res = nl.copy(acc, dtype=out.dtype)
      nl.store(out[m * TM:(m + 1) * TM, n * TN:(n + 1) * TN], value=res)

  return out
