#: offers exp ndarray sbuf float32 tile_size affine_range
#: lacks arange par_dim mgrid add_scalar
#: detail ndarray (shape, dtype, buffer=nl.sbuf
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nl.‸
