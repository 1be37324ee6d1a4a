import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.language as nl


# accelopt: x=f32[256,512] places=i32[128,1]~ones nki-version=0.6
@nki.jit
def kernel(x, places):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.arange(128)[:, None]  # expect: M05
    f = nl.arange(512)[None, :]
    index = nl.load(places)
    rows = nl.load(x[index[p, 0], f])  # expect: M16
    nl.store(out, value=rows)
    return out


# accelopt: x=f32[256,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(x[64:192, :]))
    return out
