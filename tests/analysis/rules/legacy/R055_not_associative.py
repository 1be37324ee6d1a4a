import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[4,128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    state = nl.zeros((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(4):
        state[...] = nl.exp(state)  # expect: R055 state
    nl.store(out, value=state)
    return out


# accelopt: x=f32[4,128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(4):
        total += nl.load(x[i])
    nl.store(out, value=total)
    return out
