"""How many distinct elements a strided access touches over the loops around it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import prod

from attrs import frozen

from accelopt_lsp.analysis.affine import Var, const_of, terms_of
from accelopt_lsp.analysis.values import View

MAX_RUNS = 4096
"""Contiguous runs that a union is counted over; beyond, overlaps are not counted."""


@frozen(slots=True)
class Footprint:
    """Elements that an access touches: ``base + sum(stride * [0, count))``.

    ``exact``: no two of these sums are equal.
    """

    base: int
    levels: tuple[tuple[int, int], ...]
    exact: bool

    @property
    def count(self) -> int:
        return prod(n for _, n in self.levels)

    @property
    def end(self) -> int:
        """One past the last element."""
        return self.base + sum(s * (n - 1) for s, n in self.levels) + 1


def footprint(view: View) -> Footprint:
    """What a view touches over all iterations of the loops around it."""
    base = const_of(view.offset)
    steps = []
    for stride, size in zip(view.strides, view.shape, strict=True):
        base += min(0, stride * (size - 1))
        steps.append((abs(stride), size))
    for var, coefficient in terms_of(view.offset):
        base += min(coefficient * var.low, coefficient * (var.high - 1))
        steps.append((abs(coefficient), var.trips))
    levels = _levels((s, n) for s, n in steps if s and n > 1)
    reach = 0
    exact = True
    for stride, count in sorted(levels):
        exact = exact and stride > reach
        reach += stride * (count - 1)
    return Footprint(base, tuple(sorted(levels)), exact)


def union_size(footprints: Iterable[Footprint], whole: int) -> int | None:
    """Distinct elements of several accesses to a tensor of ``whole`` elements.

    None where they overlap in a way that is not counted exactly.
    """
    found = sorted(set(footprints), key=lambda f: (f.base, f.end))
    if any(f.exact and f.count >= whole for f in found):
        return whole
    if not all(f.exact for f in found):
        return None
    if all(a.end <= b.base for a, b in zip(found, found[1:], strict=False)):
        return sum(f.count for f in found)
    runs: list[tuple[int, int]] = []
    for f in found:
        inner = f.levels[0] if f.levels and f.levels[0][0] == 1 else (1, 1)
        outer = f.levels[1:] if f.levels and f.levels[0][0] == 1 else f.levels
        if len(runs) + prod(n for _, n in outer) > MAX_RUNS:
            return None
        runs += [
            (f.base + sum(place), f.base + sum(place) + inner[1])
            for place in product(*(range(0, s * n, s) for s, n in outer))
        ]
    total = reach = 0
    for first, end in sorted(runs):
        total += max(0, end - max(first, reach))
        reach = max(reach, end)
    return total


def distinct_elements(view: View) -> int:
    """Distinct elements of the allocation that a view touches over all iterations.

    Exact for nested tilings; overlapping windows along one axis count once.
    """
    steps = [(abs(s), n) for s, n in zip(view.strides, view.shape, strict=True)]
    steps += [(abs(c), v.trips) for v, c in terms_of(view.offset)]
    return count_sums((s, n) for s, n in steps if s and n > 1)


def count_sums(steps: Iterable[tuple[int, int]]) -> int:
    """Number of distinct sums of one multiple of each step: ``step * [0, count)``."""
    return prod(length for _, length in _levels(steps))


def _levels(steps: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Steps and counts with the same sums, steps that continue each other joined."""
    levels: list[list[int]] = []
    for step, count in sorted(steps):
        for level in levels:
            stride, length = level
            if step % stride == 0 and step // stride <= length:
                level[1] = (count - 1) * (step // stride) + length
                break
        else:
            levels.append([step, count])
    return [(stride, length) for stride, length in levels]


def free_loops(view: View, loops: tuple[Var, ...]) -> tuple[Var, ...]:
    """Loops whose variable the address does not depend on: they read the same bytes again."""
    used = {v for v, _ in terms_of(view.offset)}
    for index in view.block:
        used.update(v for v, _ in terms_of(index))
    return tuple(v for v in loops if v not in used and v.trips > 1)
