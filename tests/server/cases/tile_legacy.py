#: offers reshape astype broadcast_to
#: lacks ap permute
import neuronxcc.nki.language as nl
from neuronxcc import nki
from neuronxcc.nki import isa as nisa


@nki.jit
def kernel(x, out):
    tile = nl.load(x)
    tile.‸
