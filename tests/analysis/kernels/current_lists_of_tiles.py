import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: lhsT=bf16[512,256] rhs=bf16[512,1024]
@nki.jit
def kernel(lhsT, rhs):
    """Tiles kept in nested lists, comprehensions and dictionaries."""
    K, M = lhsT.shape
    N = rhs.shape[1]
    out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)
    lhs_tiles = []
    for k in range(K // 128):
        row = []
        for m in range(M // 128):
            tile = nl.ndarray((128, 128), dtype=lhsT.dtype, buffer=nl.sbuf)
            nisa.dma_copy(
                dst=tile, src=lhsT[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128]
            )
            row.append(tile)
        lhs_tiles.append(row)
    rhs_tiles = [nl.ndarray((128, N), dtype=rhs.dtype, buffer=nl.sbuf) for _ in range(K // 128)]
    for k, tile in enumerate(rhs_tiles):
        nisa.dma_copy(dst=tile, src=rhs[k * 128 : (k + 1) * 128, :])
    scales = {"first": 1.0, "rest": 2.0}
    for m in range(M // 128):
        for n in range(N // 512):
            acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(K // 128):
                nisa.nc_matmul(
                    dst=acc,
                    stationary=lhs_tiles[k][m],
                    moving=rhs_tiles[k][:, n * 512 : (n + 1) * 512],
                )
            result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            scale = scales["first"] if m == 0 else scales["rest"]
            nisa.activation(dst=result, op=nl.copy, data=acc, scale=scale)
            nisa.dma_copy(
                dst=out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], src=result
            )
    return out
