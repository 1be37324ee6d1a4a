from neuronxcc import nki
from neuronxcc.nki import isa, language


@nki.jit
def kernel(x, cos, sin):
    head, columns = x.shape
    half = head // 2
    out = language.ndarray((head, columns), dtype=x.dtype, buffer=language.shared_hbm)
    for start in range(0, columns, 256):
        span = language.ds(start, 256)
        even = language.load(x[0:half, span])
        odd = language.load(x[half:head, span])
        c, s = language.load(cos[0:half, span]), language.load(sin[0:half, span])
        rotated = language.ndarray((head, 256), dtype=x.dtype, buffer=language.sbuf)
        rotated[0:half, 0:256] = isa.tensor_tensor(even * c, odd * s, language.subtract)
        rotated[half:head, 0:256] = isa.tensor_tensor(odd * c, even * s, language.add)
        language.store(out[0:head, span], rotated)
    return out
