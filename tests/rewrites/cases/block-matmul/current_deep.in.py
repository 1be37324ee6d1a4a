# apply: {"block_m": 4, "block_n": 1, "block_k": 1}
import nki
import nki.isa as nisa
import nki.language as nl

TILE = 128
WIDE = 512


# accelopt: lhs=f32[256,1024] rhs=f32[256,1024]
@nki.jit
def product(lhs, rhs):
    depth, rows = lhs.shape
    columns = rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs.dtype, buffer=nl.shared_hbm)

    for j in range(columns // WIDE):
        for i in range(rows // TILE):
            total = nl.ndarray((TILE, WIDE), dtype=nl.float32, buffer=nl.psum)
            for p in range(depth // TILE):
                x = nl.ndarray((TILE, TILE), dtype=lhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=x, src=lhs[p * TILE : (p + 1) * TILE, i * TILE : (i + 1) * TILE])
                y = nl.ndarray((TILE, WIDE), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=y, src=rhs[p * TILE : (p + 1) * TILE, j * WIDE : (j + 1) * WIDE])
                nisa.nc_matmul(dst=total, stationary=x, moving=y)
            tile = nl.ndarray((TILE, WIDE), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=tile, data=total, op0=nl.multiply, operand0=0.5)
            nisa.dma_copy(
                dst=out[i * TILE : (i + 1) * TILE, j * WIDE : (j + 1) * WIDE],
                src=tile,
            )

    return out
