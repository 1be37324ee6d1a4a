"""A kernel with mistakes that are easy to make; the picture of `accelopt check` shows them."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[1024,1024] w=f32[1024,1024]
@nki.jit
def kernel(x, w):
    out = nl.ndarray((1024, 1024), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        x_tile = nl.load(x[nl.ds(i * 256, 256), 0:1024])
        for j in nl.affine_range(16):
            w_tile = nl.load(w[0:128, nl.ds(j * 64, 64)])
            product = nl.matmul(w_tile, x_tile, transpose_x=True)
            nl.store(out[nl.ds(i * 256, 64), nl.ds(j * 64, 1024)], value=product)
    return out
