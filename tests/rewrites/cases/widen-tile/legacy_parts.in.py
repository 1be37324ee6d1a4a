# apply: {"factor": 2}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: v1=f32[128,2,2048]
@nki.jit
def kernel(v1):
    v2 = nl.ndarray((128, 2, 2048), dtype=nl.float32, buffer=nl.shared_hbm)
    v3 = nl.ndarray((2, 2, nl.par_dim(128), 1024), dtype=nl.float32, buffer=nl.sbuf)
    v4 = nl.ndarray((2, 2, nl.par_dim(128), 1024), dtype=nl.float32, buffer=nl.sbuf)
    v5 = nl.ndarray((2, 2, 2, nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.sbuf)
    for i0 in nl.affine_range(2):
        for i1 in nl.affine_range(2):
            v3[i0, i1, nl.arange(128)[:, None], nl.arange(1024)[None, :]] = nl.load(v1[nl.arange(128)[:, None], i0, 1024 * i1 + nl.arange(1024)[None, :]])
            for i2 in nl.affine_range(2):
                v5[i0, i1, i2, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nisa.activation(op=nl.exp, data=v3[i0, i1, nl.arange(128)[:, None], 512 * i2 + nl.arange(512)[None, :]], scale=-1.0)
                v4[i0, i1, nl.arange(128)[:, None], 512 * i2 + nl.arange(512)[None, :]] = nl.multiply(v3[i0, i1, nl.arange(128)[:, None], 512 * i2 + nl.arange(512)[None, :]], v5[i0, i1, i2, nl.arange(128)[:, None], nl.arange(512)[None, :]])
                ' end loop i2 '
            nl.store(v2[nl.arange(128)[:, None], i0, 1024 * i1 + nl.arange(1024)[None, :]], value=v4[i0, i1, nl.arange(128)[:, None], nl.arange(1024)[None, :]])
            ' end loop i1 '
        ' end loop i0 '
    return v2
