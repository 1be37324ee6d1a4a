# base: softmax
# expect: launch: runs as 2 programs on 2 cores instead of 1 program on 1 core
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        nl.store(out, nl.zeros(x.shape, dtype=x.dtype))
    else:
        tile = nl.load(x)
        top = nl.max(tile, axis=[1], keepdims=True)
        exponent = nl.exp(nl.subtract(tile, top))
        total = nl.sum(exponent, axis=[1], keepdims=True)
        nl.store(out, nl.divide(exponent, total))
    return out


kernel = kernel[nl.nc(2)]
