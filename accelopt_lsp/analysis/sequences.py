"""Sequences to loop over, also those that a loop filled and whose items are symbolic."""

from __future__ import annotations

import ast

from accelopt_lsp.analysis.affine import Affine, Linear, Undecided, add, bounds, scale, split
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.references import same_kind
from accelopt_lsp.analysis.registers import Register
from accelopt_lsp.analysis.texts import SomeText
from accelopt_lsp.analysis.values import (
    SOME_KEY,
    ClassValue,
    DictValue,
    Grid,
    Instance,
    Iteration,
    ListValue,
    Range,
    Repeat,
    Unknown,
    Value,
    flat_length,
    item_at,
    list_item,
    written_out,
)

MAX_ITEMS = 10_000
MAX_DISTINCT = 500
"""Members of a set that are compared one by one."""


def iteration_of(value: Value) -> Iteration | None:
    """How to loop over a value, or None if that is not known."""
    if isinstance(value, Iteration):
        return value
    if isinstance(value, Range):
        start, step = value.start, value.step
        if value.kind == "dynamic_range":
            return Iteration(
                value.length(), lambda i: Register(add(start, scale(i, step)), frozen=True)
            )
        return Iteration(value.length(), lambda i: add(start, scale(i, step)))
    if isinstance(value, SomeText):
        return None
    if isinstance(value, ListValue):
        if Repeat in map(type, value.items):
            return Iteration(flat_length(value.items), lambda i: item_at(value, i), True)
        return _plain_list(value)
    known: list[Value] | None = None
    if isinstance(value, tuple):
        known = list(value)
    elif isinstance(value, dict):
        if SOME_KEY in value:
            return None
        known = list(value)
    elif isinstance(value, Grid):
        known = list(value.axes)
    elif isinstance(value, ClassValue) and value.kind == "enum":
        known = list(value.roster.values())
    elif isinstance(value, str):
        known = list(value)
    if known is None:
        return None
    return Iteration(len(known), lambda i: list_item(known, i), False)


def use_up(m: Machine, value: Value) -> None:
    """What goes over an iterator finds nothing in it a second time.

    Raises:
        NeedSplit, Undecided: it is used up, or was made in front of a loop that uses it.
    """
    if not isinstance(value, Iteration) or value.loops is None:
        return
    m.alone(value.loops)
    if value.uses:
        raise Undecided("an iterator that was used up before")
    m.journal.append(value.uses, True)


def _plain_list(value: ListValue) -> Iteration:
    """How to loop over a list without runs; most items are taken without looking at the others."""
    before = list(value.items)

    def item(index: Linear) -> Value:
        items = value.items
        if type(index) is int and len(items) == len(before) and items[index] is before[index]:
            found = items[index]
            if not isinstance(found, Instance | ListValue | DictValue):
                return found
        return item_at(value, index)

    return Iteration(len(before), item, False)


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
    if isinstance(value, ListValue) and len(value.items) == found.length:
        if not any(isinstance(i, Repeat) for i in value.items):
            # Asking for one after the other would look through the whole list each time.
            return list(value.items)
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


def part_of(m: Machine, owner: tuple[Value, ...] | ListValue, key: slice) -> list[Value]:
    """``items[start:stop:step]``.

    Raises:
        NeedSplit, Undecided: the ends depend on the iteration, or are not known.
    """
    for end in (key.start, key.stop, key.step):
        if isinstance(end, Affine):
            raise split(end.terms, "a part of a list that depends on the iteration")
        if end is not None and not isinstance(end, int):
            raise Undecided("a part of a list whose ends are not known")
    items = list(owner) if isinstance(owner, tuple) else owner.items
    length = flat_length(items)
    span = range(length)[key]
    if len(items) == length:
        return list(items[key])
    if span == range(length):
        return list(items)
    if length > MAX_ITEMS:
        raise Undecided("a part of a long list")
    if isinstance(owner, ListValue) and _holds_mutable(items):
        m.set_items(owner, written_out(items))
        return list(owner.items[key])
    return written_out(items)[key]


def shared_items(m: Machine, owner: ListValue) -> list[Value]:
    """Items of a list that another one is going to hold too: the same objects, not likenesses."""
    if _holds_mutable(owner.items):
        if flat_length(owner.items) > MAX_ITEMS:
            raise Undecided("a long list of objects that is copied")
        m.set_items(owner, written_out(owner.items))
    return list(owner.items)


def _holds_mutable(items: list[Value]) -> bool:
    runs = [i for i in items if isinstance(i, Repeat)]
    return any(
        isinstance(i, ListValue | dict | Repeat | Instance) for run in runs for i in run.items
    )


def distinct(items: list[Value]) -> list[Value]:
    """Items of a set, in the order in which they are given.

    Raises:
        Undecided: whether two are the same is not known.
    """
    found: list[Value] = []
    constants: set[Value] = set()
    others: list[Value] = []
    for item in items:
        if isinstance(item, Affine):
            raise split(item.terms, "a set of values that depend on the iteration")
        if isinstance(item, Unknown | Repeat | SomeText) or _says_itself(item):
            raise Undecided("a set of values that are not known")
        constant = isinstance(item, bool | int | float | str | bytes | None)
        # The name of a data type is the same as that type.
        rest = others if constant else found
        if (constant and item in constants) or any(same_kind(item, other) for other in rest):
            continue
        found.append(item)
        if constant:
            constants.add(item)
        else:
            if len(others) >= MAX_DISTINCT:
                raise Undecided("a set of many values that are no constants")
            others.append(item)
    return found


def _says_itself(item: Value) -> bool:
    """An object that equals others than itself."""
    return isinstance(item, Instance) and item.cls.kind != "enum"


def mutable_item(m: Machine, node: ast.Subscript) -> Value:
    """``rows[k]`` where it is about to change: a list in a list must be itself, not a likeness.

    Raises:
        NeedSplit, Undecided: which one it is depends on the iteration, or is not known.
    """
    if isinstance(node.value, ast.Subscript):
        owner = mutable_item(m, node.value)
    elif isinstance(node.value, ast.Name):
        owner = m.name_value(node.value.id)
    else:
        owner = m.eval(node.value)
    if not isinstance(owner, ListValue):
        return m.eval(node)
    if _holds_mutable(owner.items):
        if flat_length(owner.items) > MAX_ITEMS:
            raise Undecided("a long list of lists that changes")
        m.set_items(owner, written_out(owner.items))
    # What it holds changes, so that whoever reads it in the same loop sees a difference.
    m.appended.append((owner, len(owner.items)))
    index = m.eval(node.slice)
    if not isinstance(index, int | Affine):
        return m.eval(node)
    length = flat_length(owner.items)
    low, high = bounds(index)
    if low < -length or high >= length:
        raise Undecided(f"index {index} leaves a list of {length} elements")
    return list_item(owner.items, index)
