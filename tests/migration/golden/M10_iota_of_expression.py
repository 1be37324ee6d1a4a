import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    ramp = nl.ndarray((128, 512), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=ramp, pattern=[[2, 512]], offset=5, channel_multiplier=3)
    nl.store(out, value=nl.add(nl.load(x), nl.copy(ramp, dtype=nl.float32)))
    return out


# accelopt: x=f32[128,512] ramp=i32[128,512] nki-version=0.6
@nki.jit
def near_miss(x, ramp):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, value=nl.add(nl.load(x), nl.load(ramp, dtype=nl.float32)))
    return out
