#: offers vector_offset= scalar_offset=
#: lacks pattern= offset=
#: signature scalar_offset=None
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    tile.ap([[512, 128], [1, 512]], offset=0, scal‸
