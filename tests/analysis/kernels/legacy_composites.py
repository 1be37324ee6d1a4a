import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


# accelopt: x=f32[256,512] gamma=f32[512] b=f32[16,512]
@nki.jit
def kernel(x, gamma, b):
    """Broadcasts, transposes, reductions and normalisation of nki.language."""
    out = nl.ndarray((512, 256), dtype=x.dtype, buffer=nl.shared_hbm)
    gamma_row = nl.load(gamma.reshape((1, 512)))
    for i in nl.affine_range(2):
        tile = nl.load(x[nl.ds(i * 128, 128), :])
        normed = nl.rms_norm(tile, gamma_row, axis=1, n=512)
        mean = nl.mean(normed, axis=1, keepdims=True)
        centred = nl.subtract(normed, mean)
        soft = nl.softmax(centred, axis=[1])
        row = nl.load(b[i : i + 1, :])
        mixed = nl.multiply(soft, row.broadcast_to((128, 512)))
        mixed = nl.maximum(mixed, 0.0)
        for j in nl.affine_range(4):
            turned = nl.transpose(mixed[:, nl.ds(j * 128, 128)])
            copied = nl.copy(turned, dtype=out.dtype)
            nl.store(out[nl.ds(j * 128, 128), nl.ds(i * 128, 128)], value=copied)
    return out
