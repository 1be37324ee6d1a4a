import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


# accelopt: x=f32[300,700]
@nki.jit
def kernel(x):
    """Masks that cut the last tile of each axis short."""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(512)[None, :]
    for i in nl.affine_range((rows + 127) // 128):
        for j in nl.affine_range((columns + 511) // 512):
            valid = (i * 128 + i_p < rows) & (j * 512 + i_f < columns)
            tile = nl.load(x[i * 128 + i_p, j * 512 + i_f], mask=valid)
            tile[i_p, i_f] = nl.exp(tile[i_p, i_f], mask=valid)
            nl.store(out[i * 128 + i_p, j * 512 + i_f], value=tile, mask=valid)
    return out
