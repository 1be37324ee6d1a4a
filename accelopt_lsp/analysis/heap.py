"""What a visit of a loop body changes in objects, lists and dictionaries that were there before.

A loop body is visited once for many iterations. That is right if every iteration finds the
state that the visit began with: what it changed is back, or grew by the same number each time,
or is written before it is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen

from accelopt_lsp.analysis.affine import Affine, Var, split, subtract
from accelopt_lsp.analysis.scope import UNBOUND, Journal, Scope
from accelopt_lsp.analysis.values import (
    Bound,
    ClassValue,
    Function,
    Instance,
    Iteration,
    ListValue,
    Repeat,
    Unknown,
    Value,
    adopted,
    replace_var,
    type_signature,
    written_out,
)

MAX_COMPARED = 64
Entry = tuple[Any, Any, Any, Any]
"""An entry of the journal: owner, container, key, old value."""


@frozen(slots=True, eq=False)
class Cell:
    """A field of an object, an item of a dictionary or a name, with its value before a visit."""

    owner: Any
    table: dict[Any, Value]
    key: Any
    old: Value

    @property
    def new(self) -> Value:
        return self.table.get(self.key, UNBOUND)


@frozen(slots=True, eq=False)
class Grown:
    """A list that was there before a visit, with its length then."""

    owner: ListValue
    length: int


@frozen(slots=True, eq=False)
class Changes:
    """What a visit changed.

    Attributes:
        carried: cells that were read before they were written, and now hold something else.
        cells: all cells that changed.
        grown: lists that only got longer.
        settled: lists that are as they were before.
        other: something changed in a way that no other iteration can be told from.
    """

    carried: tuple[Cell, ...]
    cells: tuple[Cell, ...]
    grown: tuple[Grown, ...]
    settled: frozenset[int]
    other: bool


NO_CHANGES = Changes((), (), (), frozenset(), False)


def changes_of(entries: list[Entry], var: Var, first: dict[tuple[int, Any], bool]) -> Changes:
    """What the entries of one visit of ``var``'s loop come to.

    Args:
        entries: the journal since the visit began.
        var: loops of an owner that include it were opened inside.
        first: by (container's id, key): whether the first access was a read.
    """
    cells: dict[tuple[int, Any], Cell] = {}
    lists: dict[int, tuple[ListValue, list[Entry]]] = {}
    for entry in entries:
        owner, container, key, old = entry
        if callable(container) or isinstance(owner, Scope):
            continue
        if var in getattr(owner, "loops", ()):
            continue
        if isinstance(container, list):
            if owner is not None:
                lists.setdefault(id(owner), (owner, []))[1].append(entry)
        elif (id(container), key) not in cells:
            cells[id(container), key] = Cell(owner, container, key, old)
    carried = [
        cell
        for place, cell in cells.items()
        if first.get(place, True) and type_signature(cell.old) != type_signature(cell.new)
    ]
    grown, settled, other = [], [], False
    for owner, changed in lists.values():
        old_items, items = _before(owner.items, changed), owner.items
        same = len(items) >= len(old_items) and all(
            a is b or type_signature(a) == type_signature(b)
            for a, b in zip(old_items, items, strict=False)
        )
        if not same:
            other = True
        elif len(items) > len(old_items):
            grown.append(Grown(owner, len(old_items)))
        else:
            settled.append(id(owner))
    every = tuple(cells.values())
    return Changes(tuple(carried), every, tuple(grown), frozenset(settled), other)


def changes_anything(entries: list[Entry], scope: Scope) -> bool:
    """Whether some changes leave a state that code of ``scope`` can tell from the one before.

    Args:
        entries: the journal since then.
    """
    around: list[Scope] = []
    while True:
        around.append(scope)
        if scope.parent is None:
            break
        scope = scope.parent
    cells: dict[tuple[int, Any], Cell] = {}
    lists: dict[int, tuple[list[Value], list[Entry]]] = {}
    for entry in entries:
        owner, container, key, old = entry
        if callable(container):
            return True
        if isinstance(container, list):
            lists.setdefault(id(container), (container, []))[1].append(entry)
        elif isinstance(owner, Scope) and old is UNBOUND and owner not in around:
            # A local name of a function that was called and has ended.
            continue
        else:
            cells.setdefault((id(container), key), Cell(owner, container, key, old))
    for cell in cells.values():
        if type_signature(cell.old) != type_signature(cell.new):
            return True
    return any(_list_differs(items, changed) for items, changed in lists.values())


def _list_differs(items: list[Value], entries: list[Entry]) -> bool:
    """Whether a list is not as it was before some changes; a long one counts as changed."""
    _, _, key, old = entries[0]
    if len(items) != (old if key is None else len(old)) or len(items) > MAX_COMPARED:
        return True
    return any(
        a is not b and type_signature(a) != type_signature(b)
        for a, b in zip(_before(items, entries), items, strict=True)
    )


def _before(items: list[Value], entries: list[Entry]) -> list[Value]:
    """A list as it was before some changes."""
    found = list(items)
    for _, _, key, old in reversed(entries):
        if key is None:
            del found[old:]
        else:
            found = list(old)
    return found


def deltas(cells: Iterable[Cell]) -> list[tuple[Cell, int]] | None:
    """By how much integers grew; None if something changed otherwise.

    Numbers whose value does not matter may change: they are unknown numbers afterwards.
    """
    found: list[tuple[Cell, int]] = []
    for cell in cells:
        old, new = cell.old, cell.new
        plain = not isinstance(old, bool) and not isinstance(new, bool)
        if plain and isinstance(old, int | Affine) and isinstance(new, int | Affine):
            delta = subtract(new, old)
            if isinstance(delta, int):
                found.append((cell, delta))
                continue
        if isinstance(old, float | Unknown) and isinstance(new, float | Unknown):
            continue
        return None
    return found


CHANGED_COPY = "one of several objects that a loop made is changed after the loop"


def realize(journal: Journal, value: Any) -> bool:
    """Put a likeness in the place of what it is like, since it is about to change.

    Returns:
        False if nobody knows where it was taken from.

    Raises:
        NeedSplit, Undecided: which element it is depends on the iteration.
    """
    if value.shadow is None:
        return True
    holder = value.holder
    if not isinstance(holder, tuple):
        return holder is not None and realize(journal, holder) and value.shadow is None
    owner, index = holder
    if isinstance(index, Affine):
        raise split(index.terms, "an object of a list that changes")
    if not realize(journal, owner):
        return False
    items = written_out(owner.items)
    items[index] = value
    origin = value.shadow
    adoptions: list[tuple[Any, Any]] = []
    adopted(value, adoptions)
    journal.undo_with(lambda: _shadow_again(adoptions))
    journal.replace(owner.items, items, owner)
    _blur_origin(journal, origin)
    return True


def _blur_origin(journal: Journal, origin: Any) -> None:
    """Whoever else holds what was changed finds out that it is not known any more."""
    unknown = Unknown(CHANGED_COPY)
    if isinstance(origin, ListValue):
        journal.replace(origin.items, [unknown] * len(origin.items), origin)
        return
    table = origin.fields if isinstance(origin, Instance) else origin
    for key in list(table):
        journal.set_item(table, key, unknown, origin)


def _shadow_again(adoptions: list[tuple[Any, Any]]) -> None:
    for value, origin in adoptions:
        value.shadow = origin


def remembers(value: Value, var: Var, depth: int = 4) -> bool:
    """Whether a value keeps a loop's variable where :func:`replace_var` does not reach it."""
    if isinstance(value, Iteration):
        return True
    if not depth:
        return False
    if isinstance(value, Function):
        scope: Scope | None = value.scope
        while scope is not None and scope.parent is not None:
            if any(_mentions(v, var) for v in scope.names.values()):
                return True
            scope = scope.parent
        return False
    if isinstance(value, Bound):
        return any(remembers(v, var, depth - 1) for v in (value.function, *value.args))
    children: Iterable[Value] = ()
    if isinstance(value, tuple):
        children = value
    elif isinstance(value, ListValue | Repeat):
        children = value.items
    elif isinstance(value, dict):
        children = value.values()
    elif isinstance(value, Instance) and var in value.loops:
        children = value.fields.values()
    return any(remembers(child, var, depth - 1) for child in children)


def _mentions(value: Value, var: Var) -> bool:
    """Whether a value is another one in another iteration."""
    if isinstance(value, Function | Instance | ClassValue):
        return False
    replaced = replace_var(value, var, var.low)
    return replaced is not value and not (isinstance(value, Affine) and replaced == value)
