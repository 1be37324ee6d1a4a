#: first nl.sbuf nl.psum nl.hbm
#: lacks buffer= nl.exp
#: signature buffer=nl.sbuf
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    other = nl.ndarray((128, 512), dtype=x.dtype, buffer=‸
    nisa.tensor_copy(dst=other, src=tile)
