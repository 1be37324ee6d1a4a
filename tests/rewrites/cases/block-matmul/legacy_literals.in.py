# apply: {"resident": "moving", "block_m": 2, "block_n": 1}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: v1=f32[4,128,512] v2=f32[4,128,1024]
@nki.jit
def kernel(v1, v2):
    v3 = nl.ndarray((4, 128, 1024), dtype=nl.float32, buffer=nl.shared_hbm)
    for i0 in nl.affine_range(4):
        for i1 in nl.affine_range(2):
            v4 = nl.zeros((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
            for i2 in nl.affine_range(4):
                v5 = nl.load(v1[i2, nl.arange(128)[:, None], 128 * i0 + nl.arange(128)[None, :]])
                v6 = nl.load(v2[i2, nl.arange(128)[:, None], 512 * i1 + nl.arange(512)[None, :]])
                v4[...] += nisa.nc_matmul(v5, v6)
            v7 = nl.copy(v4, dtype=nl.float32)
            nl.store(v3[i0, nl.arange(128)[:, None], 512 * i1 + nl.arange(512)[None, :]], value=v7)
    return v3
