"""Rotary position embedding as a first version: tiles of 128 positions."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

HALF = 64
TILE = 128


# accelopt: q=f32[128,32768] cos=f32[64,32768] sin=f32[64,32768]
@nki.jit
def rotary(q, cos, sin):
    """Rotate the halves of every head: [q1 cos - q2 sin, q2 cos + q1 sin].

    q holds a head's elements on partitions: [128, heads * positions].
    """
    head, columns = q.shape
    assert head == 2 * HALF
    assert columns % TILE == 0
    out = nl.ndarray((head, columns), dtype=q.dtype, buffer=nl.shared_hbm)

    for i in nl.affine_range(columns // TILE):
        first = nl.load(q[0:HALF, nl.ds(i * TILE, TILE)])
        second = nl.load(q[HALF:head, nl.ds(i * TILE, TILE)])
        cos_tile = nl.load(cos[0:HALF, nl.ds(i * TILE, TILE)])
        sin_tile = nl.load(sin[0:HALF, nl.ds(i * TILE, TILE)])

        first_cos = nl.multiply(first, cos_tile)
        second_sin = nl.multiply(second, sin_tile)
        rotated_first = nl.subtract(first_cos, second_sin)
        second_cos = nl.multiply(second, cos_tile)
        first_sin = nl.multiply(first, sin_tile)
        rotated_second = nl.add(second_cos, first_sin)

        nl.store(out[0:HALF, nl.ds(i * TILE, TILE)], value=rotated_first)
        nl.store(out[HALF:head, nl.ds(i * TILE, TILE)], value=rotated_second)

    return out
