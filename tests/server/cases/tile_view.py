#: offers ap reshape
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=tile[0:128, 0:64].reshape((128, 8, 8)).‸)
