# base: softmax
# expect: tampering: looks into the simulator with operand
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    small = nl.zeros((128, 1), dtype=nl.float32)
    tile = nl.load(x)
    tile.operand = small.operand
    top = nl.max(tile, axis=[1], keepdims=True)
    exponent = nl.exp(nl.subtract(tile, top))
    total = nl.sum(exponent, axis=[1], keepdims=True)
    nl.store(out, nl.divide(exponent, total))
    return out
