#: offers exp load arange par_dim mgrid sbuf
#: lacks dynamic_range shared_x float8_e4m3fn
#: detail load (src, *, mask=None, dtype=None)
import neuronxcc.nki.language as nl
from neuronxcc import nki
from neuronxcc.nki import isa as nisa


@nki.jit
def kernel(x, out):
    tile = nl.load(x)
    nl.‸
