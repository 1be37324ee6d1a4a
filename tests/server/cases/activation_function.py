#: first nl.abs nl.arctan nl.copy
#: lacks nl.add nl.divide
#: signature op
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.activation(dst=tile, op=‸)
