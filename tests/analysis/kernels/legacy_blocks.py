import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


# accelopt: lhsT=bf16[512,512] rhs=bf16[512,1024]
@nki.jit
def kernel(lhsT, rhs):
    """Block dimensions, grids of indices, products that add up in PSUM and in SBUF."""
    K, M = lhsT.shape
    N = rhs.shape[1]
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    i_lhs = nl.mgrid[0:128, 0:128]
    i_rhs = nl.mgrid[0:128, 0:512]
    for n in nl.affine_range(N // 512):
        sums = nl.zeros((M // 128, nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.sbuf)
        rhs_tiles = nl.ndarray((K // 128, nl.par_dim(128), 512), dtype=rhs.dtype, buffer=nl.sbuf)
        for k in nl.affine_range(K // 128):
            rhs_tiles[k, i_rhs.p, i_rhs.x] = nl.load(rhs[k * 128 + i_rhs.p, n * 512 + i_rhs.x])
        for m in nl.affine_range(M // 128):
            for half in nl.sequential_range(2):
                acc = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
                for k in nl.affine_range(K // 256):
                    row = half * (K // 256) + k
                    lhs_tile = nl.load(lhsT[row * 128 + i_lhs.p, m * 128 + i_lhs.x])
                    acc[...] += nl.matmul(lhs_tile, rhs_tiles[row], transpose_x=True)
                sums[m, i_rhs.p, i_rhs.x] += acc[i_rhs.p, i_rhs.x]
            packed = nl.copy(sums[m, i_rhs.p, i_rhs.x], dtype=out.dtype)
            nl.store(out[m * 128 + i_rhs.p, n * 512 + i_rhs.x], value=packed)
    return out
