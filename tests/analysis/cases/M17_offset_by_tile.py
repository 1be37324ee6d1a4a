import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[4,128,512] which=i32[1,1]~ones nki-version=0.6
@nki.jit
def kernel(x, which):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    p, f = nl.mgrid[0:128, 0:512]  # expect: M05
    batch = nl.load(which)
    tile = nl.load(x[batch[0, 0], p, f])  # expect: M17
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[4,128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(x[2]))
    return out
