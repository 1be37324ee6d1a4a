"""How many distinct elements a strided access touches over the loops around it."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from accelopt_lsp.analysis.affine import Var, terms_of
from accelopt_lsp.analysis.values import View


def distinct_elements(view: View) -> int:
    """Distinct elements of the allocation that a view touches over all iterations.

    Exact for nested tilings; overlapping windows along one axis count once.
    """
    steps = [(abs(s), n) for s, n in zip(view.strides, view.shape, strict=True)]
    steps += [(abs(c), v.trips) for v, c in terms_of(view.offset)]
    return count_sums((s, n) for s, n in steps if s and n > 1)


def count_sums(steps: Iterable[tuple[int, int]]) -> int:
    """Number of distinct sums of one multiple of each step: ``step * [0, count)``."""
    levels: list[list[int]] = []
    for step, count in sorted(steps):
        for level in levels:
            stride, length = level
            if step % stride == 0 and step // stride <= length:
                level[1] = (count - 1) * (step // stride) + length
                break
        else:
            levels.append([step, count])
    return prod(length for _, length in levels)


def free_loops(view: View, loops: tuple[Var, ...]) -> tuple[Var, ...]:
    """Loops whose variable the address does not depend on: they read the same bytes again."""
    used = {v for v, _ in terms_of(view.offset)}
    for index in view.block:
        used.update(v for v, _ in terms_of(index))
    return tuple(v for v in loops if v not in used and v.trips > 1)
