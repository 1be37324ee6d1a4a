"""Sequences to loop over, also those that a loop filled and whose items are symbolic."""

from __future__ import annotations

from accelopt_lsp.analysis.affine import Undecided, add, scale
from accelopt_lsp.analysis.values import (
    Grid,
    Iteration,
    ListValue,
    Range,
    Repeat,
    Value,
    flat_length,
    list_item,
)

MAX_ITEMS = 10_000


def iteration_of(value: Value) -> Iteration | None:
    """How to loop over a value, or None if that is not known."""
    if isinstance(value, Iteration):
        return value
    if isinstance(value, Range):
        start, step = value.start, value.step
        return Iteration(value.length(), lambda i: add(start, scale(i, step)))
    if isinstance(value, ListValue):
        items = list(value.items)
        runs = any(isinstance(i, Repeat) for i in items)
        return Iteration(flat_length(items), lambda i: list_item(items, i), runs)
    known: list[Value] | None = None
    if isinstance(value, tuple):
        known = list(value)
    elif isinstance(value, dict):
        known = list(value)
    elif isinstance(value, Grid):
        known = list(value.axes)
    if known is None:
        return None
    return Iteration(len(known), lambda i: list_item(known, i), False)


def required(value: Value) -> Iteration:
    """The same, where it must be known.

    Raises:
        Undecided: it is not.
    """
    found = iteration_of(value)
    if found is None:
        raise Undecided("a sequence that is not known")
    return found


def items_of(value: Value) -> list[Value] | None:
    """All items one by one, or None if they are not known or too many."""
    found = iteration_of(value)
    if found is None or found.length > MAX_ITEMS:
        return None
    return [found.item(i) for i in range(found.length)]


def enumerated(value: Value, start: int) -> Iteration:
    over = required(value)
    return Iteration(over.length, lambda i: (add(i, start), over.item(i)), over.symbolic)


def zipped(values: list[Value]) -> Iteration:
    each = [required(v) for v in values]
    length = min((i.length for i in each), default=0)
    symbolic = all(i.symbolic for i in each)
    return Iteration(length, lambda n: tuple(i.item(n) for i in each), symbolic)


def reversed_items(value: Value) -> Iteration:
    over = required(value)
    last = over.length - 1
    return Iteration(over.length, lambda i: over.item(add(scale(i, -1), last)), over.symbolic)
