import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[4,128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((4, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    largest = nl.zeros((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(4):
        largest[...] = nl.maximum(largest, nl.load(x[i]))
        nl.store(out[i], value=largest)  # expect: R055 largest
    return out


# accelopt: x=f32[4,128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    largest = nl.zeros((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(4):
        largest[...] = nl.maximum(largest, nl.load(x[i]))
    nl.store(out, value=largest)
    return out
