"""Instructions called as if they returned a tile."""

import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] y=bf16[128,128]
@nki.jit
def kernel(x, y):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    inverse = nisa.reciprocal(tile)  # of every element
    total = nisa.tensor_reduce(
        nl.add, tile, axis=1
    )
    scaled = nisa.tensor_scalar(data=inverse, op0=nl.multiply, operand0=total)
    nl.store(out, value=scaled)
    return out
