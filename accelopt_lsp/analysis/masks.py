"""Masks of the legacy dialect: they cut the axes of a call's tiles short."""

from __future__ import annotations

from collections.abc import Mapping

from accelopt_lsp.analysis import affine
from accelopt_lsp.analysis.affine import Affine, Linear, add, bounds
from accelopt_lsp.analysis.values import IndexArray, Mask, View

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


def trimmed(name: str, views: Mapping[str, View], mask: Mask) -> dict[str, View] | None:
    """Tensors of a call after its mask; None where the call does nothing."""
    found = split_mask(mask)
    if found is None:
        return None
    rank, cuts = found
    result = dict(views)
    for slot, view in views.items():
        narrowed = view
        lead = len(view.shape) - rank
        for axis, (size, low, high) in cuts.items():
            at = axis + lead
            if 0 <= at < len(narrowed.shape) and narrowed.shape[at] == size:
                narrowed = narrowed.narrowed(at, low, high)
        result[slot] = narrowed
    return result
