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
    # The whole width fits one PSUM bank, so there is no loop over columns
    for m in nl.sequential_range(M // TILE_M):
        # Rows of the bias belong to this tile
        bias_tile = nl.load(bias[nl.ds(m * TILE_M, TILE_M), 0:1])
        acc = nl.zeros((TILE_M, N), nl.float32, buffer=nl.psum)
        for k in nl.affine_range(K // TILE_K):
            x_tile = nl.load(xT[nl.ds(k * TILE_K, TILE_K), nl.ds(m * TILE_M, TILE_M)])
            w_tile = nl.load(w[nl.ds(k * TILE_K, TILE_K), 0:N])
            acc += nl.matmul(x_tile, w_tile, transpose_x=True)
        res = nl.add(acc, bias_tile, dtype=out.dtype)
        nl.store(out[nl.ds(m * TILE_M, TILE_M), 0:N], value=res)
    return out
