"""Integer patterns behind indices that are not affine, such as ``i // 4`` and ``i % 4``."""

from __future__ import annotations

import numpy as np

from accelopt_lsp.nki.operands import NestedPattern
from accelopt_lsp.profiler.simulator.elements import Array

MAX_AXES = 4


def nested_pattern(values: Array) -> NestedPattern | None:
    """The pattern of at most four nested steps that makes these values; None if there is none.

    Args:
        values: integers, with partitions along the first axis.
    """
    if values.ndim < 2 or values.size == 0 or values.dtype.kind not in "iu":
        return None
    rows = values.reshape(values.shape[0], -1).astype(np.int64)
    first = rows[:, 0]
    multiplier = int(first[1] - first[0]) if len(first) > 1 else 0
    if not np.array_equal(rows, rows[0] + multiplier * np.arange(len(first))[:, None]):
        return None
    steps = _steps(rows[0])
    if len(steps) > MAX_AXES:
        return None
    return NestedPattern(tuple(values.shape), multiplier, tuple(steps), int(first[0]))


def _steps(row: Array) -> list[tuple[int, int]]:
    """``[step, num]`` from the outermost to the innermost axis; one element an axis at worst."""
    if len(row) == 1:
        return [(0, 1)]
    changes = np.diff(row)
    other = np.flatnonzero(changes != changes[0])
    length = int(other[0]) + 1 if len(other) else len(row)
    if len(row) % length or not _repeats(row, length):
        return [(0, 1)] * (MAX_AXES + 1)
    inner = (int(changes[0]), length)
    return [inner] if length == len(row) else [*_steps(row[::length]), inner]


def _repeats(row: Array, length: int) -> bool:
    """Whether pieces of that length differ from the first by a constant each."""
    pieces = row.reshape(-1, length)
    return bool((pieces - pieces[:, :1] == pieces[0] - pieces[0, 0]).all())
