#: offers activation tensor_copy_dynamic_src
#: lacks quantize_mx dma_compute activate2 dma_engine
#: detail activation (op, data, *
import neuronxcc.nki.language as nl
from neuronxcc import nki
from neuronxcc.nki import isa as nisa


@nki.jit
def kernel(x, out):
    tile = nl.load(x)
    nisa.ac‸
