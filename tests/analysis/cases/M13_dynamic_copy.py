import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512] starts=i32[1,4]~ones nki-version=0.6
@nki.jit
def kernel(x, starts):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    p, f = nl.mgrid[0:128, 0:16]  # expect: M05
    tile = nl.load(x)
    start = nl.load(starts)
    for k in nl.affine_range(4):
        part = nisa.tensor_copy_dynamic_src(tile[p, start[0, k] + f])  # expect: M02 M13 M17
        nl.store(out[p, 16 * k + f], value=part)
    return out


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, value=nl.copy(tile[:, 64:128]))
    return out
