#: offers ap reshape shape dtype permute
#: lacks astype assert_shape
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    tile.‸
