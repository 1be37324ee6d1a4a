#: signature op
#: offers nl.exp
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    broken = nl.load(x[0:128
    nisa.activation(dst=tile, op=‸
    for i in range(4):
        pass
