import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    left = 2
    while left > 0:  # expect: R036 left > 0
        left -= 1
    nl.store(out, value=nl.load(x))
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    left = 2
    for _ in nl.static_range(2):
        left -= 1
    nl.store(out, value=nl.load(x))
    return out
