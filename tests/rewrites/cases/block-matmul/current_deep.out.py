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

    # Output tiles per block: the larger, the fewer reloads.
    TILES_IN_BLOCK_I = 4
    BLOCK_I = TILES_IN_BLOCK_I * TILE
    TILES_IN_BLOCK_P = 1

    for i_block in range(rows // BLOCK_I):
        for j in range(columns // WIDE):
            sums = []
            for i_tile in range(TILES_IN_BLOCK_I):
                sum_tile = nl.ndarray((TILE, WIDE), dtype=nl.float32, buffer=nl.sbuf)
                nisa.memset(dst=sum_tile, value=0.0)
                sums.append(sum_tile)

            for p_block in range(depth // TILE // TILES_IN_BLOCK_P):
                x_block = []
                for p_tile in range(TILES_IN_BLOCK_P):
                    p = p_block * TILES_IN_BLOCK_P + p_tile
                    x_wide = nl.ndarray((TILE, BLOCK_I), dtype=lhs.dtype, buffer=nl.sbuf)
                    nisa.dma_copy(dst=x_wide,
                                  src=lhs[p * TILE : (p + 1) * TILE,
                                          i_block * BLOCK_I : (i_block + 1) * BLOCK_I])
                    x_block.append(x_wide)

                y_block = []
                for p_tile in range(TILES_IN_BLOCK_P):
                    p = p_block * TILES_IN_BLOCK_P + p_tile
                    y_wide = nl.ndarray((TILE, WIDE), dtype=rhs.dtype, buffer=nl.sbuf)
                    nisa.dma_copy(dst=y_wide,
                                  src=rhs[p * TILE : (p + 1) * TILE, j * WIDE : (j + 1) * WIDE])
                    y_block.append(y_wide)

                for i_tile in range(TILES_IN_BLOCK_I):
                    total = nl.ndarray((TILE, WIDE), dtype=nl.float32, buffer=nl.psum)
                    for p_tile in range(TILES_IN_BLOCK_P):
                        nisa.nc_matmul(dst=total,
                                       stationary=x_block[p_tile][:,
                                                                  i_tile * TILE : (i_tile + 1) * TILE], moving=y_block[p_tile])
                    nisa.tensor_tensor(dst=sums[i_tile], data1=sums[i_tile], data2=total, op=nl.add)

            for i_tile in range(TILES_IN_BLOCK_I):
                i = i_block * TILES_IN_BLOCK_I + i_tile
                tile = nl.ndarray((TILE, WIDE), dtype=out.dtype, buffer=nl.sbuf)
                nisa.tensor_scalar(dst=tile, data=sums[i_tile], op0=nl.multiply, operand0=0.5)
                nisa.dma_copy(
                    dst=out[i * TILE : (i + 1) * TILE, j * WIDE : (j + 1) * WIDE],
                    src=tile,
                )

    return out
