"""Softmax over the rows of a matrix as a first version: one instruction a formula step."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

P = nl.tile_size.pmax


# accelopt: x=bf16[4096,2048]
@nki.jit
def softmax(x):
    """Return exp(x - max) / sum(exp(x - max)), row by row."""
    rows, columns = x.shape
    assert rows % P == 0
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)

    for i in nl.affine_range(rows // P):
        x_tile = nl.load(x[nl.ds(i * P, P), 0:columns])
        row_max = nl.max(x_tile, axis=[1], keepdims=True)
        shifted = nl.subtract(x_tile, row_max, dtype=nl.float32)
        exponent = nl.exp(shifted)
        total = nl.sum(exponent, axis=[1], keepdims=True)
        out_tile = nl.divide(exponent, total, dtype=out.dtype)
        nl.store(out[nl.ds(i * P, P), 0:columns], value=out_tile)

    return out
