import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    p = nl.arange(128)[:, None]  # expect: M05
    f = nl.arange(512)[None, :]
    ramp = nisa.iota(3 * p + 2 * f + 5, dtype=nl.int32)  # expect: M02 M03 M10
    nl.store(out, value=nl.add(nl.load(x), nl.copy(ramp, dtype=nl.float32)))
    return out


# accelopt: x=f32[128,512] ramp=i32[128,512] nki-version=0.6
@nki.jit
def near_miss(x, ramp):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, value=nl.add(nl.load(x), nl.load(ramp, dtype=nl.float32)))
    return out
