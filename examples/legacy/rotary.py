"""Rotary position embedding as a first version: one head after the other."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

P = nl.tile_size.pmax
HEAD = 128
HALF = HEAD // 2


# accelopt: q=f32[4096,1024] cos=f32[4096,64] sin=f32[4096,64]
@nki.jit
def rotary(q, cos, sin):
    """Rotate the halves of every head: [q1 cos - q2 sin, q2 cos + q1 sin].

    q holds the heads of one position side by side: [positions, heads * 128].
    """
    positions, width = q.shape
    assert positions % P == 0
    assert width % HEAD == 0
    out = nl.ndarray((positions, width), dtype=q.dtype, buffer=nl.shared_hbm)

    for i in nl.affine_range(positions // P):
        for h in nl.affine_range(width // HEAD):
            cos_tile = nl.load(cos[nl.ds(i * P, P), 0:HALF])
            sin_tile = nl.load(sin[nl.ds(i * P, P), 0:HALF])
            first = nl.load(q[nl.ds(i * P, P), nl.ds(h * HEAD, HALF)])
            second = nl.load(q[nl.ds(i * P, P), nl.ds(h * HEAD + HALF, HALF)])

            first_cos = nl.multiply(first, cos_tile)
            second_sin = nl.multiply(second, sin_tile)
            second_cos = nl.multiply(second, cos_tile)
            first_sin = nl.multiply(first, sin_tile)

            nl.store(
                out[nl.ds(i * P, P), nl.ds(h * HEAD, HALF)],
                value=nl.subtract(first_cos, second_sin),
            )
            nl.store(
                out[nl.ds(i * P, P), nl.ds(h * HEAD + HALF, HALF)],
                value=nl.add(second_cos, first_sin),
            )

    return out
