#: offers activation dma_copy engine reduce_cmd
#: detail activation (dst, op, data
#: detail quantize_mx needs NeuronCore-v4
#: deprecated vector_engine
#: last quantize_mx
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.‸
