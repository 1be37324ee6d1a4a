import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(lhs_t, rhs):
    k_size, m_size = lhs_t.shape
    _, n_size = rhs.shape
    out = nl.ndarray((m_size, n_size), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for row in nl.affine_range(m_size // 128):
        stationary = []
        for k in nl.affine_range(k_size // 128):
            tile = nl.ndarray((128, 128), dtype=lhs_t.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=lhs_t[nl.ds(k * 128, 128), nl.ds(row * 128, 128)])
            stationary.append(tile)
        for column in nl.affine_range(n_size // 512):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(k_size // 128):
                moving = nl.ndarray((128, 512), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(
                    dst=moving, src=rhs[k * 128 : (k + 1) * 128, column * 512 : (column + 1) * 512]
                )
                nisa.nc_matmul(dst=total, stationary=stationary[k], moving=moving)
            result = nl.ndarray((128, 512), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=total, dtype=out.dtype)
            nisa.dma_copy(
                dst=out[row * 128 : (row + 1) * 128, column * 512 : (column + 1) * 512],
                src=result,
            )
    return out
