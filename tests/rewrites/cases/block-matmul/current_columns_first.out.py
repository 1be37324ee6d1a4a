# apply: {"block_m": 4, "block_n": 1, "resident": "stationary"}
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

    # Output tiles per block: the larger, the fewer reloads.
    TILES_IN_BLOCK_I = 4
    BLOCK_I = TILES_IN_BLOCK_I * TILE

    for i_block in range(rows // BLOCK_I):
        x_block = []
        for p in range(depth // TILE):
            x_wide = nl.ndarray((TILE, BLOCK_I), dtype=lhs.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=x_wide,
                          src=lhs[p * TILE : (p + 1) * TILE,
                                  i_block * BLOCK_I : (i_block + 1) * BLOCK_I])
            x_block.append(x_wide)

        for j in range(columns // WIDE):
            y_block = []
            for p in range(depth // TILE):
                y_wide = nl.ndarray((TILE, WIDE), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=y_wide,
                              src=rhs[p * TILE : (p + 1) * TILE, j * WIDE : (j + 1) * WIDE])
                y_block.append(y_wide)

            for i_tile in range(TILES_IN_BLOCK_I):
                i = i_block * TILES_IN_BLOCK_I + i_tile
                total = nl.ndarray((TILE, WIDE), dtype=nl.float32, buffer=nl.psum)
                for p in range(depth // TILE):
                    nisa.nc_matmul(dst=total,
                                   stationary=x_block[p][:, i_tile * TILE : (i_tile + 1) * TILE],
                                   moving=y_block[p])
                tile = nl.ndarray((TILE, WIDE), dtype=out.dtype, buffer=nl.sbuf)
                nisa.tensor_scalar(dst=tile, data=total, op0=nl.multiply, operand0=0.5)
                nisa.dma_copy(
                    dst=out[i * TILE : (i + 1) * TILE, j * WIDE : (j + 1) * WIDE],
                    src=tile,
                )

    return out
