#: first bfloat16 bool_
#: offers exp
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    other = nl.zeros((128, 512), dtype=nl.‸)
