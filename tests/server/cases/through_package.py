#: offers activation
import nki


@nki.jit
def kernel(x):
    pass
    nki.isa.‸
