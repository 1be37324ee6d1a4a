# expect: rejected line=5 code=R022 outside a kernel
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

scale = nl.exp(1)


@nki.jit
def kernel(x):
    return x
