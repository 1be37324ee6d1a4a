#: offers load store
import neuronxcc.nki.language as L
from neuronxcc import nki


@nki.jit
def kernel(x):
    pass
    L.‸
