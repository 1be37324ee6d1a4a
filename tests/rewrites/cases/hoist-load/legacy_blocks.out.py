# apply: {"over": "i0"}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: v1=f32[4,128,128] v2=f32[2,128,512]
@nki.jit
def kernel(v1, v2):
    v3 = nl.ndarray((4, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    v4 = nl.ndarray((4, nl.par_dim(128), 128), dtype=nl.float32, buffer=nl.sbuf)
    v5 = nl.ndarray((2, nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.sbuf)
    v6 = nl.zeros((4, nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
    for i1 in nl.affine_range(2):
        v5[i1, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nl.load(v2[i1, nl.arange(128)[:, None], nl.arange(512)[None, :]])
    for i0 in nl.affine_range(4):
        v4[i0, nl.arange(128)[:, None], nl.arange(128)[None, :]] = nl.load(v1[i0, nl.arange(128)[:, None], nl.arange(128)[None, :]])
        for i2 in nl.affine_range(2):
            v6[i0, nl.arange(128)[:, None], nl.arange(512)[None, :]] += nisa.nc_matmul(v4[i0, nl.arange(128)[:, None], nl.arange(128)[None, :]], v5[i2, nl.arange(128)[:, None], nl.arange(512)[None, :]])
            ' end loop i2 '
        v7 = nl.copy(v6[i0, nl.arange(128)[:, None], nl.arange(512)[None, :]])
        nl.store(v3[i0, nl.arange(128)[:, None], nl.arange(512)[None, :]], value=v7)
        ' end loop i0 '
    return v3
