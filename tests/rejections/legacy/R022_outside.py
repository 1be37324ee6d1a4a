import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def broken():
    return nl.zeros((128, 512), dtype=nl.float32, buffer=nl.sbuf)  # expect: R022 nl.zeros


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(x))
    return out
