import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[4,128,128]
@nki.jit
def trip(x):
    out = nl.ndarray((5, 128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    steps = nl.zeros((128, 5, 64), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(4):
        steps[:, i + 1, :] = nl.exp(steps[:, i, :])  # expect: R055 steps
    for i in nl.affine_range(5):
        nl.store(out[i], value=steps[:, i, :])
    return out


# accelopt: x=f32[4,128,128]
@nki.jit
def near(x):
    out = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((128, 128), dtype=nl.float32, buffer=nl.psum)
    for i in nl.affine_range(4):
        tile = nl.load(x[i])
        total += nl.matmul(tile, tile, transpose_x=True)
    nl.store(out, value=nl.copy(total))
    return out
