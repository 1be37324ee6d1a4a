#: offers activation dma_copy
#: lacks quantize_mx
from neuronxcc.nki.isa import (
    nc_matmul,
    ‸
)
