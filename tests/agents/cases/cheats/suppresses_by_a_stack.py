# base: softmax
# expect: tampering: suppresses exceptions
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
from contextlib import ExitStack


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    with ExitStack() as stack:
        stack.push(lambda *error: True)
        nl.load(tile)
    top = nl.max(tile, axis=[1], keepdims=True)
    exponent = nl.exp(nl.subtract(tile, top))
    total = nl.sum(exponent, axis=[1], keepdims=True)
    nl.store(out, nl.divide(exponent, total))
    return out
