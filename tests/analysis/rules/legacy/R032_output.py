import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[4,128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        nl.store(out, value=nl.load(x[i]))  # expect: R032 4 iterations
    return out


# accelopt: x=f32[4,128,512]
@nki.jit
def near(x):
    out = nl.ndarray((4, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        nl.store(out[i], value=nl.load(x[i]))
    return out
