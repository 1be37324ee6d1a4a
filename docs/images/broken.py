"""A kernel with mistakes that are easy to make; the picture of `accelopt check` shows them."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[1024,1024] w=f32[1024,1024] bias=f32[1024,1]
@nki.jit
def project(x, w, bias):
    out = nl.ndarray((1024, 1024), dtype=x.dtype, buffer=nl.shared_hbm)
    bias_tile = nl.load(bias[0:1024, 0:1])
    for i in nl.affine_range(8):
        for j in nl.affine_range(16):
            w_tile = nl.load(w[0:128, nl.ds(j * 64, 64)])
            x_tile = nl.load(x[0:128, nl.ds(i * 128, 1024)])
            product = nl.matmul(w_tile, x_tile, transpose_x=True)
            nl.store(out[nl.ds(j * 64, 64), 0:1024], value=nl.add(product, bias_tile))
    return out
