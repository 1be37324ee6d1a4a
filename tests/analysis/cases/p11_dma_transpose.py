import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=bf16[128,2048]
@nki.jit
def kernel(x):
    out = nl.ndarray((2048, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(16):
        tile = nl.load_transpose2d(x[:, i * 128 : (i + 1) * 128])  # expect: P11
        nl.store(out[i * 128 : (i + 1) * 128, :], tile)
    return out
