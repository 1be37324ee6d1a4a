"""RMSNorm over the rows of a matrix as a first version: one instruction a formula step."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

P = nl.tile_size.pmax


# accelopt: x=bf16[4096,2048] gamma=bf16[2048]
@nki.jit
def rmsnorm(x, gamma, eps=1e-6):
    """Return x / sqrt(mean(x^2) + eps) * gamma; the mean runs over each row."""
    rows, columns = x.shape
    assert rows % P == 0
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)

    for i in nl.affine_range(rows // P):
        x_tile = nl.load(x[nl.ds(i * P, P), 0:columns])
        gamma_row = nl.load(gamma.reshape((1, columns))[0:1, 0:columns])
        gamma_tile = gamma_row.broadcast_to((P, columns))

        squares = nl.square(x_tile, dtype=nl.float32)
        total = nl.sum(squares, axis=[1], keepdims=True)
        mean = nl.multiply(total, 1.0 / columns)
        shifted = nl.add(mean, eps)
        scale = nl.rsqrt(shifted)

        normed = nl.multiply(x_tile, scale, dtype=nl.float32)
        out_tile = nl.multiply(normed, gamma_tile, dtype=out.dtype)
        nl.store(out[nl.ds(i * P, P), 0:columns], value=out_tile)

    return out
