"""Sets: lists in which each item stands once."""

from __future__ import annotations

import ast
from typing import Any

from accelopt_lsp.analysis.affine import Undecided
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.references import same_kind
from accelopt_lsp.analysis.sequences import distinct, items_of
from accelopt_lsp.analysis.values import ListValue, Unknown, Value, written_out


def make_set(m: Machine, items: list[Value]) -> ListValue:
    """A set of these items."""
    return ListValue(distinct(items), tuple(m.loops), unordered=True)


def set_binary(m: Machine, op: ast.operator, left: Any, right: Any) -> Value:
    if not all(isinstance(v, ListValue) and v.unordered for v in (left, right)):
        raise Undecided("a set and something else")
    a, b = distinct(written_out(left.items)), distinct(written_out(right.items))
    among = [any(same_kind(x, y) for y in b) for x in a]
    if isinstance(op, ast.BitOr):
        return make_set(m, [*a, *b])
    if isinstance(op, ast.BitAnd):
        return make_set(m, [x for x, known in zip(a, among, strict=True) if known])
    if isinstance(op, ast.Sub):
        return make_set(m, [x for x, known in zip(a, among, strict=True) if not known])
    raise Undecided("this operation on sets is not analyzed")


def set_method(m: Machine, owner: ListValue, name: str, args: list[Value]) -> Value:
    """Methods of a set. What it holds in the end has to be known."""
    if name == "copy":
        return ListValue(list(owner.items), tuple(m.loops), unordered=True)
    binary_of = {"union": "update", "intersection": "intersection_update"}
    binary_of["difference"] = "difference_update"
    if name in binary_of:
        twin = ListValue(list(owner.items), tuple(m.loops), unordered=True)
        set_method(m, twin, binary_of[name], args)
        return twin
    m.alone(owner.loops)
    items = written_out(owner.items)
    known: list[list[Value] | None] = [None if isinstance(a, Unknown) else [a] for a in args]
    if name.endswith("update"):
        known = [None if isinstance(a, Unknown) else items_of(a) for a in args]
    given = [item for part in known for item in part or ()]
    try:
        if None in known:
            raise Undecided("a set changes in a way that is not known")
        given = distinct(given)
        if name in ("add", "update"):
            items = distinct([*items, *given])
        elif name in ("discard", "remove", "difference_update"):
            items = [i for i in items if not any(same_kind(i, g) for g in given)]
        elif name == "intersection_update":
            items = [i for i in items if any(same_kind(i, g) for g in given)]
        elif name == "clear":
            items = []
        elif name in ("issubset", "issuperset", "isdisjoint"):
            return Unknown(f"set.{name} is not analyzed")
        else:
            raise Undecided(f"set.{name} is not analyzed")
    except Undecided as why:
        m.unknown(str(why))
        m.set_items(owner, [Unknown(str(why))])
        raise
    m.set_items(owner, items)
    return None
