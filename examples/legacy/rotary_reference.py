"""What rotary must compute, in NumPy, on heads in their usual layout."""

import numpy as np

POSITIONS, HEADS, HEAD = 4096, 8, 128


def get_inputs():
    q = np.random.normal(size=(POSITIONS, HEADS, HEAD)).astype(np.float32)
    frequency = 10000.0 ** (-np.arange(0, HEAD, 2) / HEAD)
    angle = np.arange(POSITIONS)[:, None] * frequency[None, :]
    return [q, np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)]


def forward(q, cos, sin):
    first, second = q[..., : HEAD // 2], q[..., HEAD // 2 :]
    cos, sin = cos[:, None, :], sin[:, None, :]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def transform_to_nki_inputs(inputs):
    """The kernel takes a head's elements on partitions, and all positions of all heads beside."""
    q, cos, sin = inputs
    columns = q.transpose(2, 1, 0).reshape(HEAD, HEADS * POSITIONS)
    return [np.ascontiguousarray(columns), np.tile(cos.T, (1, HEADS)), np.tile(sin.T, (1, HEADS))]


def transform_nki_outputs(outputs, expected):
    """Back to [positions, heads, head size]."""
    return [np.reshape(outputs, (HEAD, HEADS, POSITIONS)).transpose(2, 1, 0)]
