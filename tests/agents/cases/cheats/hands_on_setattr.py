# base: softmax
# expect: tampering: hands on setattr
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

change = setattr


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    change(tile, "_region", (0, 0, 1, 0, 4))
    top = nl.max(tile, axis=[1], keepdims=True)
    exponent = nl.exp(nl.subtract(tile, top))
    total = nl.sum(exponent, axis=[1], keepdims=True)
    nl.store(out, nl.divide(exponent, total))
    return out
