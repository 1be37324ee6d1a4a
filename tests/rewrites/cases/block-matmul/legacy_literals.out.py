# apply: {"resident": "moving", "block_m": 2, "block_n": 1}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: v1=f32[4,128,512] v2=f32[4,128,1024]
@nki.jit
def kernel(v1, v2):
    v3 = nl.ndarray((4, 128, 1024), dtype=nl.float32, buffer=nl.shared_hbm)

    # Output tiles per block: the larger, the fewer reloads.
    TILES_IN_BLOCK_I0 = 2
    BLOCK_I0 = TILES_IN_BLOCK_I0 * 128

    for i1 in nl.affine_range(2):
        v6_block = nl.ndarray((4, nl.par_dim(128), 512), dtype=v2.dtype, buffer=nl.sbuf)
        for i2 in nl.affine_range(4):
            v6_block[i2, :, :] = nl.load(v2[i2, 0:128, i1 * 512:(i1 + 1) * 512])

        for i0_block in nl.affine_range(4 // TILES_IN_BLOCK_I0):
            v5_block = nl.ndarray((4, nl.par_dim(128), BLOCK_I0), dtype=v1.dtype, buffer=nl.sbuf)
            for i2 in nl.affine_range(4):
                v5_block[i2, :, :] = nl.load(v1[i2, 0:128,
                                                i0_block * BLOCK_I0:(i0_block + 1) * BLOCK_I0])

            for i0_tile in nl.affine_range(TILES_IN_BLOCK_I0):
                i0 = i0_block * TILES_IN_BLOCK_I0 + i0_tile
                v4 = nl.zeros((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
                for i2 in nl.affine_range(4):
                    v4[...] += nisa.nc_matmul(v5_block[i2, :, i0_tile * 128:(i0_tile + 1) * 128],
                                              v6_block[i2, :, :])
                v7 = nl.copy(v4, dtype=nl.float32)
                nl.store(v3[i0, nl.arange(128)[:, None], 512 * i1 + nl.arange(512)[None, :]], value=v7)
    return v3
