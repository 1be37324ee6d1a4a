"""Masks of the legacy dialect: they cut the axes of a call's tiles short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelopt_lsp.analysis import affine
from accelopt_lsp.analysis.affine import Affine, Linear, add, bounds
from accelopt_lsp.analysis.values import IndexArray, Mask, View
from accelopt_lsp.nki.masking import PARTITIONS_ONLY
from accelopt_lsp.nki.operands import Condition, Pattern

Bounds = dict[int, tuple[int, int, int]]
"""Axis of the mask's grid to (size, first valid position, end of the valid ones)."""


def split_mask(mask: Mask) -> tuple[int, Bounds] | None:
    """Rank of the mask's grid and the bounds per axis; None where nothing is valid.

    Terms over several axes, and terms that are not understood, cut nothing short.

    Raises:
        NeedSplit, Undecided: the bounds depend on the iteration.
    """
    rank = max((len(t.shape) for t in mask.terms if t is not None), default=0)
    found: Bounds = {}
    for term in mask.terms:
        if term is None:
            continue
        lead = rank - len(term.shape)
        varying = [a for a, c in enumerate(term.coefficients) if c and term.shape[a] > 1]
        if not varying:
            if not affine.compare(">=", term.base, 0):
                return None
            continue
        if len(varying) > 1:
            continue
        axis = varying[0]
        low, high = _valid(term, axis)
        size = term.shape[axis]
        known = found.get(axis + lead)
        if known is not None:
            low, high = max(low, known[1]), min(high, known[2])
        if low >= high:
            return None
        found[axis + lead] = (size, low, high)
    return rank, found


def _valid(term: IndexArray, axis: int) -> tuple[int, int]:
    """Positions of one axis at which ``base + step * position >= 0``."""
    size, step = term.shape[axis], term.coefficients[axis]
    worst: Linear = add(term.base, step * (size - 1)) if step < 0 else term.base
    if affine.compare(">=", worst, 0):
        return 0, size
    best: Linear = term.base if step < 0 else add(term.base, step * (size - 1))
    if not affine.compare(">=", best, 0):
        return 0, 0
    if isinstance(term.base, Affine):
        low, high = bounds(term.base)
        if low != high:
            raise affine.split(term.base.terms, f"the mask {term.base} cuts tiles differently")
        base = low
    else:
        base = term.base
    if step > 0:
        return max(0, -(base // step)), size
    return 0, min(size, base // -step + 1)


Cut = tuple[int, int, int]
"""Axis of a tensor, first valid position, end of the valid ones."""


def cuts_of(rank: int, found: Bounds, shape: tuple[int, ...]) -> tuple[Cut, ...]:
    """Bounds of a mask's axes as cuts of a tensor's, aligned at the last axis."""
    cuts = []
    for axis, (size, low, high) in found.items():
        at = 0 if axis == 0 else len(shape) - (rank - axis)
        if at < 0 or shape[at] != size or (low, high) == (0, size):
            continue
        cuts.append((at, low, high))
    return tuple(cuts)


def cut_view(view: View, cuts: tuple[Cut, ...]) -> View:
    """The part of a tensor that a mask leaves."""
    for axis, low, high in cuts:
        if axis < len(view.shape) and view.shape[axis] > 1:
            view = view.narrowed(axis, low, high)
    return view


def shortened(value: Any, rank: int, found: Bounds) -> Any:
    """The part of an index expression that a mask leaves; other values as they are."""
    if isinstance(value, Condition):
        return Condition(tuple([shortened(term, rank, found) for term in value.terms]))
    if not isinstance(value, Pattern):
        return value
    sizes, offset = list(value.shape), value.offset
    for axis, (_, low, high) in found.items():
        at = axis - (rank - len(sizes))
        if at >= 0 and sizes[at] > 1:
            offset += low * value.strides[at]
            sizes[at] = high - low
    return Pattern(tuple(sizes), value.strides, offset)


def trimmed(views: Mapping[str, View], rank: int, found: Bounds) -> dict[str, View]:
    """Tensors of a call after its mask; ``[P, 1]`` operands are only cut in partitions."""
    result = {}
    for slot, view in views.items():
        own = {a: b for a, b in found.items() if a == 0} if slot in PARTITIONS_ONLY else found
        result[slot] = cut_view(view, cuts_of(rank, own, view.shape))
    return result
