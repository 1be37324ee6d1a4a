"""A kernel for the editor test: small, correct, and with room to be faster."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

P = nl.tile_size.pmax
TILE = 64


# accelopt: x=f32[256,1024] weight=f32[256,1024]
@nki.jit
def weigh(x, weight):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(rows // P):
        for j in nl.affine_range(columns // TILE):
            tile = nl.load(x[nl.ds(i * P, P), nl.ds(j * TILE, TILE)])
            factor = nl.load(weight[nl.ds(i * P, P), nl.ds(j * TILE, TILE)])
            product = nl.multiply(tile, factor)
            nl.store(out[nl.ds(i * P, P), nl.ds(j * TILE, TILE)], value=product)
    return out
