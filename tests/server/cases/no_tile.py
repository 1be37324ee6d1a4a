#: nothing
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    count = len(x.shape)
    count.‸
