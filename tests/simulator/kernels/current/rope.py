import nki
import nki.language as nl
from nki.isa import dma_copy, tensor_tensor


@nki.jit
def kernel(x, cos, sin):
    head, columns = x.shape
    half = head // 2
    out = nl.ndarray((head, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for start in nl.sequential_range(0, columns, 256):
        span = nl.ds(start, 256)
        parts = []
        for source, rows in ((x, 0), (x, half), (cos, 0), (sin, 0)):
            part = nl.ndarray((half, 256), dtype=x.dtype, buffer=nl.sbuf)
            dma_copy(dst=part, src=source[rows : rows + half, span])
            parts.append(part)
        even, odd, c, s = parts
        low = nl.ndarray((half, 256), dtype=x.dtype, buffer=nl.sbuf)
        high = nl.ndarray((half, 256), dtype=x.dtype, buffer=nl.sbuf)
        tensor_tensor(dst=low, data1=even * c, data2=odd * s, op=nl.subtract)
        tensor_tensor(dst=high, data1=odd * c, data2=even * s, op=nl.add)
        dma_copy(dst=out[0:half, span], src=low)
        dma_copy(dst=out[half:head, span], src=high)
    return out
