# base: softmax
# expect: tampering: takes the method Part.grow without an object
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


class Part:
    def grow(self, shape):
        self.shape = shape



# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    part = tile[0:128, 0:1]
    Part.grow(part, (128, 512))
    top = nl.max(tile, axis=[1], keepdims=True)
    exponent = nl.exp(nl.subtract(tile, top))
    total = nl.sum(exponent, axis=[1], keepdims=True)
    nl.store(out, nl.divide(exponent, total))
    return out
