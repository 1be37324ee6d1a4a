"""Instructions called as if they returned a tile."""

import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] y=bf16[128,128]
@nki.jit
def kernel(x, y):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    inverse = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(inverse, tile)  # of every element
    total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(
        total, nl.add, tile, axis=1
    )
    scaled = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=scaled, data=inverse, op0=nl.multiply, operand0=total)
    nl.store(out, value=scaled)
    return out
