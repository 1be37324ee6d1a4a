"""Statements that change lists, dictionaries and sets which others hold too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from accelopt_lsp.analysis.affine import Undecided
from accelopt_lsp.analysis.calls import call_value
from accelopt_lsp.analysis.classes import method_of
from accelopt_lsp.analysis.expressions import binary
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.methods import call_method
from accelopt_lsp.analysis.sequences import items_of, mutable_item
from accelopt_lsp.analysis.tree import walk
from accelopt_lsp.analysis.values import (
    SOME_KEY,
    Instance,
    ListValue,
    Method,
    Unknown,
    Value,
    written_out,
)
from accelopt_lsp.analysis.workspace import CHANGING

_Place = ast.Attribute | ast.Subscript
_CHANGED: WeakKeyDictionary[ast.stmt, tuple[tuple[str, _Place], ...]] = WeakKeyDictionary()


def _changed_places(statement: ast.stmt) -> tuple[tuple[str, _Place], ...]:
    """What a statement changes in place by its text: the name, and the attribute or item of it."""
    known = _CHANGED.get(statement)
    if known is None:
        known = _CHANGED[statement] = tuple(_find_changed(statement))
    return known


def _find_changed(statement: ast.stmt) -> Iterator[tuple[str, _Place]]:
    for node in walk(statement):
        place: ast.AST | None = None
        if isinstance(node, _Place) and isinstance(node.ctx, ast.Store):
            place = node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            place = node.func if node.func.attr in CHANGING else None
        if isinstance(place, _Place) and isinstance(place.value, ast.Name):
            yield place.value.id, place


def forget_changes(m: Machine, body: list[ast.stmt], reason: str) -> None:
    """What statements that may not run would change in place is not known afterwards."""
    for name, place in (found for statement in body for found in _changed_places(statement)):
        owner = m.scope.find(name)
        if isinstance(owner, Instance) and isinstance(place, ast.Attribute):
            m.set_entry(owner, owner.fields, place.attr, Unknown(reason))
        elif isinstance(owner, dict):
            for key in (*owner, SOME_KEY):
                m.set_entry(owner, owner, key, Unknown(reason))
        elif isinstance(owner, ListValue):
            m.set_items(owner, [Unknown(reason)])


def augment_in_place(
    m: Machine, op: ast.operator, current: ListValue | dict[Any, Value], value: Value
) -> None:
    """``items += more`` and its like change the object that others hold too."""
    if isinstance(current, dict):
        if not isinstance(op, ast.BitOr):
            raise Undecided("this operation is not analyzed")
        call_method(m, ast.Pass(lineno=m.line), Method(current, "update"), [value], {})
    elif current.unordered:
        name = _SET_CHANGES.get(type(op))
        if name is None:
            raise Undecided("this operation is not analyzed")
        call_method(m, ast.Pass(lineno=m.line), Method(current, name), [value], {})
    elif isinstance(op, ast.Mult):
        repeated = binary(m, ast.Pass(), op, current, value)
        if not isinstance(repeated, ListValue):
            raise Undecided("a list that is repeated")
        m.alone(current.loops)
        m.set_items(current, list(repeated.items))
    else:
        call_method(m, ast.Pass(lineno=m.line), Method(current, "extend"), [value], {})


_SET_CHANGES: dict[type[ast.operator], str] = {
    ast.BitOr: "update",
    ast.BitAnd: "intersection_update",
    ast.Sub: "difference_update",
}


def once(m: Machine, target: ast.expr) -> ast.expr:
    """A target whose parts are computed now, so that reading and setting it does so once."""
    if isinstance(target, ast.Name) or not any(
        isinstance(part, ast.Call | ast.NamedExpr) for part in ast.walk(target)
    ):
        return target

    def held(part: ast.expr, name: str) -> ast.expr:
        m.scope.assign(name, m.eval(part))
        return ast.copy_location(ast.Name(name, ast.Load()), part)

    if isinstance(target, ast.Attribute):
        owner = held(target.value, "<owner>")
        return ast.copy_location(ast.Attribute(owner, target.attr, target.ctx), target)
    if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice):
        owner, place = held(target.value, "<owner>"), held(target.slice, "<place>")
        return ast.copy_location(ast.Subscript(owner, place, target.ctx), target)
    return target


def delete_item(m: Machine, target: ast.Subscript) -> None:
    """``del owner[index]`` or ``del owner[start:stop]``."""
    inner = target.value
    owner = mutable_item(m, inner) if isinstance(inner, ast.Subscript) else m.eval(inner)
    index = m.eval(target.slice)
    if isinstance(owner, dict):
        call_method(m, target, Method(owner, "pop"), [index], {})
    elif isinstance(owner, ListValue):
        m.alone(owner.loops)
        items = written_out(owner.items)
        try:
            del items[index]
        except (TypeError, IndexError):
            m.set_items(owner, [Unknown("an item of the list was deleted")])
            raise Undecided("an item of a list that is deleted is not known") from None
        m.set_items(owner, items)
    else:
        method = method_of(m, owner, "__delitem__")
        if method is None:
            raise Undecided("something is deleted from an object that is not known")
        call_value(m, target, method, [index], {}, {})


def assign_part(m: Machine, owner: ListValue, part: slice, value: Value) -> None:
    """``items[start:stop] = more``."""
    m.alone(owner.loops)
    items = written_out(owner.items)
    more = None if isinstance(value, Unknown) else items_of(value)
    try:
        if more is None:
            raise TypeError
        items[part] = more
    except (TypeError, ValueError):
        m.set_items(owner, [Unknown("a part of the list was replaced")])
        raise Undecided("a part of a list that is replaced is not known") from None
    m.set_items(owner, items)
