import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(lhs_t, rhs):
    k_size, m_size = lhs_t.shape
    _, n_size = rhs.shape
    out = nl.ndarray((m_size, n_size), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    p, n = nl.mgrid[0:128, 0:128], nl.mgrid[0:128, 0:512]
    for row in nl.affine_range(m_size // 128):
        stationary = nl.ndarray(
            (k_size // 128, nl.par_dim(128), 128), dtype=lhs_t.dtype, buffer=nl.sbuf
        )
        for k in nl.affine_range(k_size // 128):
            stationary[k, p.p, p.x] = nl.load(lhs_t[k * 128 + p.p, row * 128 + p.x])
        for column in nl.affine_range(n_size // 512):
            total = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(k_size // 128):
                moving = nl.load(rhs[k * 128 : (k + 1) * 128, column * 512 : (column + 1) * 512])
                total += nl.matmul(stationary[k], moving, transpose_x=True)
            result = nl.copy(total, dtype=out.dtype)
            nl.store(out[row * 128 + n.p, column * 512 + n.x], result)
    return out
