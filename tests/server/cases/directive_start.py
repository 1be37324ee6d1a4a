#: offers accelopt:
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)


# acc‸
@nki.jit
def second(a, b=1):
    pass
