import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[256,512] w=f32[1,512] n=i32[128,512]
@nki.jit
def kernel(x, w, n):
    """Functions and operators of every group, with promoted types and broadcasts."""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    counts = nl.ndarray((128, columns), dtype=n.dtype, buffer=nl.shared_hbm)
    identity = nl.load(nl.shared_identity_matrix(128, dtype=nl.float32))
    row = nl.load(w)
    integers = nl.load(n)
    integers %= 7
    integers = (integers & 5) | (integers << 2)
    integers ^= nl.invert(integers)
    nl.store(counts, integers >> 1)
    for i in nl.affine_range(rows // 128):
        tile = nl.load(x[i * 128 : (i + 1) * 128, :])
        angle = nl.sin(tile) + nl.cos(tile) - nl.tan(tile)
        rounded = nl.floor(angle) + nl.ceil(angle) + nl.trunc(angle)
        half = nl.copy(rounded, dtype=nl.bfloat16)
        half = half * 0.5
        half *= 2
        scaled = nl.mod(nl.add(half, row), 3.0)
        flags = nl.logical_and(nl.greater(scaled, 0.0), nl.less(scaled, nl.fmod(tile, 2.0)))
        flags = nl.logical_or(flags, nl.logical_not(flags))
        spread = nl.var(tile, axis=1)
        always = nl.all(flags, axis=[1])
        scaled = nl.multiply(scaled, spread) ** 2.0 + nl.copy(always, dtype=nl.float32)
        halves = nl.softmax(scaled.reshape((128, 4, 128)), axis=2)
        normed = nl.rms_norm(scaled, row, axis=1, n=columns)
        turned = nl.transpose(nl.matmul(identity, normed[:, 0:128]))
        scaled[:, 0:128] = nl.add(turned, nl.matmul(identity, normed[:, 128:256]))
        scaled[:, 128:256] = nl.prod(halves, axis=1)
        nl.device_print("tile", scaled)
        nl.store(out[i * 128 : (i + 1) * 128, :], scaled)
    nl.store(out[0:1, 0:8], 1.5)
    limit = nl.finfo(nl.float32).max
    assert limit > np.float32(1)
    return out, counts
