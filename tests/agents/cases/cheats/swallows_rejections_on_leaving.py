# base: softmax
# expect: tampering: may swallow exceptions in __exit__
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


class Quiet:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True



# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    with Quiet():
        nl.load(tile)
    top = nl.max(tile, axis=[1], keepdims=True)
    exponent = nl.exp(nl.subtract(tile, top))
    total = nl.sum(exponent, axis=[1], keepdims=True)
    nl.store(out, nl.divide(exponent, total))
    return out
