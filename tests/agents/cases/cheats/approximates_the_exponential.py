# base: softmax
# expect: outputs: the output is wrong
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    top = nl.max(tile, axis=[1], keepdims=True)
    exponent = nl.add(nl.subtract(tile, top), 1.0)
    total = nl.sum(exponent, axis=[1], keepdims=True)
    nl.store(out, nl.divide(exponent, total))
    return out
