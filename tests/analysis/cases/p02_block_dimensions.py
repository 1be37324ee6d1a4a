import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# No block is too large, all of them together are.
# accelopt: x=f32[8192,2048]
@nki.jit
def kernel(x):
    out = nl.ndarray((8192, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray((64, nl.par_dim(128), 2048), dtype=x.dtype, buffer=nl.sbuf)  # expect: P02
    for i in nl.affine_range(64):
        rows[i] = nl.load(x[i * 128 : (i + 1) * 128, :])
    for i in nl.affine_range(64):
        nl.store(out[i * 128 : (i + 1) * 128, :], nl.exp(rows[i]))
    return out
