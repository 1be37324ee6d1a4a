"""Tiled matrix product as a first version: one output tile after the other."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

TILE_M = nl.tile_size.gemm_stationary_fmax
TILE_K = nl.tile_size.pmax
TILE_N = nl.tile_size.gemm_moving_fmax


# accelopt: lhsT=bf16[4096,1024] rhs=bf16[4096,4096]
@nki.jit
def matmul(lhsT, rhs):
    """Return lhsT.T @ rhs; lhsT is [K, M], rhs is [K, N]."""
    K, M = lhsT.shape
    K_rhs, N = rhs.shape
    assert K == K_rhs, "lhsT and rhs must agree in their first dimension"
    assert M % TILE_M == 0
    assert K % TILE_K == 0
    assert N % TILE_N == 0

    result = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)

    for m in nl.affine_range(M // TILE_M):
        for n in nl.affine_range(N // TILE_N):
            acc = nl.zeros((TILE_M, TILE_N), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // TILE_K):
                lhsT_tile = nl.load(lhsT[nl.ds(k * TILE_K, TILE_K), nl.ds(m * TILE_M, TILE_M)])
                rhs_tile = nl.load(rhs[nl.ds(k * TILE_K, TILE_K), nl.ds(n * TILE_N, TILE_N)])
                acc += nl.matmul(lhsT_tile, rhs_tile, transpose_x=True)
            out_tile = nl.copy(acc, dtype=result.dtype)
            nl.store(result[nl.ds(m * TILE_M, TILE_M), nl.ds(n * TILE_N, TILE_N)], value=out_tile)

    return result
