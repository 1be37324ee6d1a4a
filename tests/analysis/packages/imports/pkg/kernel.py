import nki
import nki.isa as nisa
import nki.language as nl

import pkg.sub.sizes
from pkg import exported_width

from . import tiles as t
from .stars import EXTRA, PARTITIONS

try:
    from .fast_path import ROUNDS
except ImportError:
    from .sub.sizes import ROUNDS


# accelopt: x=f32[128,2048]
# expect-instructions: dma_copy=8 tensor_scalar=4 memset=3 activation=6
@nki.jit
def kernel(x):
    from pkg.sub.sizes import twice as double

    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t.check(x.shape[0] == PARTITIONS, "partitions")
    for i in nl.affine_range(x.shape[1] // exported_width):
        tile = t.load_tile(x, i)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[:, i * t.width : (i + 1) * t.width], src=tile)
    rest = nl.ndarray((PARTITIONS, 8), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(ROUNDS):
        nisa.memset(dst=rest, value=0.0)
    for i in range(double(pkg.sub.sizes.ROUNDS)):
        nisa.activation(dst=rest, op=nl.exp, data=rest)
    assert EXTRA == 4
    return out
