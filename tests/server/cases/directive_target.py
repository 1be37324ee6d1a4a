#: offers quantize_mx
#: detail quantize_mx (dst, src, dst_scale
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
# accelopt: target=trn3
@nki.jit
def second(x):
    nisa.quan‸
