#: signature mask=None
import neuronxcc.nki.language as nl
from neuronxcc import nki
from neuronxcc.nki import isa as nisa


@nki.jit
def kernel(x, out):
    tile = nl.load(x)
    nisa.activation(nl.exp, tile, mask=‸)
