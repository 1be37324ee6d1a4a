import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=nl.int8, buffer=nl.shared_hbm)
    flags = nl.zeros((128, 512), dtype=nl.bool_, buffer=nl.sbuf)
    nl.store(out, value=nl.invert(flags))  # expect: R056 int8
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=nl.int8, buffer=nl.shared_hbm)
    flags = nl.zeros((128, 512), dtype=nl.int8, buffer=nl.sbuf)
    nl.store(out, value=nl.invert(flags))
    return out
