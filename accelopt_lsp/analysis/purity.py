"""Functions that do nothing but compute: their results can be used again.

A call qualifies if its arguments are plain values and the function, by its text, reads nothing
that could change: parameters, what it makes itself, constants, and functions of that kind.
"""

from __future__ import annotations

import ast
from typing import Any
from weakref import WeakKeyDictionary

from accelopt_lsp.analysis.affine import Affine
from accelopt_lsp.analysis.carried import stored_names
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.scope import UNBOUND
from accelopt_lsp.analysis.tree import walk
from accelopt_lsp.analysis.values import ClassValue, Function, Instance, NamedTuple, Ref, Value
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer

MAX_DEPTH = 6
_FREE: WeakKeyDictionary[ast.AST, frozenset[str] | None] = WeakKeyDictionary()
"""By function: names that it takes from outside; None if it changes something."""
_SHORT: WeakKeyDictionary[ast.AST, bool] = WeakKeyDictionary()
_PLAIN_KINDS = (bool, int, float, str, type(None), DType, Buffer, Ref, Affine)
_PLAIN = frozenset(_PLAIN_KINDS)
_COSTLY = 12
_LARGE = 500
"""Functions with more nodes than this compute nothing that comes back."""
"""Nodes below which looking a result up costs as much as computing it."""


def is_plain(value: Value) -> bool:
    """Whether a value can neither change nor hold what can."""
    if value.__class__ in _PLAIN or isinstance(value, _PLAIN_KINDS):
        return True
    if isinstance(value, tuple):
        return all(is_plain(v) for v in value)
    return isinstance(value, Instance) and value.cls.kind == "enum"


def memory_key(
    m: Machine, function: Function, args: list[Value], kwargs: dict[str, Value]
) -> Any | None:
    """What a call's result depends on; None if it may depend on more."""
    node = function.node
    values = (*args, *kwargs.values())
    if isinstance(node, ast.Lambda) or not all(is_plain(value) for value in values):
        return None
    if not _is_pure(m, function, 0) or (len(node.body) < 2 and is_short(node)):
        return None
    parts = [_part(value) for value in values]
    return (node, id(function.scope), tuple(parts), tuple(kwargs))


def _part(value: Value) -> Any:
    """A plain value, with its type: 1, 1.0 and True are not the same."""
    if isinstance(value, NamedTuple):
        return (id(value.cls), tuple(_part(v) for v in value))
    if isinstance(value, tuple):
        return tuple(_part(v) for v in value)
    return (type(value), value)


def _is_pure(m: Machine, function: Function, depth: int) -> bool:
    known: bool | None = m.pure.get(function)
    if known is None:
        m.pure[function] = False
        known = m.pure[function] = _examine(m, function, depth)
    return known


def _examine(m: Machine, function: Function, depth: int) -> bool:
    node = function.node
    if isinstance(node, ast.Lambda) or depth > MAX_DEPTH:
        return False
    if node not in _FREE:
        _FREE[node] = free_names(node)
    free = _FREE[node]
    if free is None:
        return False
    for name in free:
        value = function.scope.find(name)
        if value is function:
            continue
        home = function.scope.home
        if function.scope is not home.scope:
            return False
        value = home.lookup(m, name)
        if isinstance(value, Function):
            if not _is_pure(m, value, depth + 1):
                return False
        elif isinstance(value, ClassValue):
            if value.kind != "enum":
                return False
        elif value is UNBOUND:
            # An import of something else, or a builtin.
            if not isinstance(m.free_name_in(home, name), Ref):
                return False
        elif not is_plain(value):
            return False
    return True


def free_names(
    node: ast.FunctionDef | ast.AsyncFunctionDef, *, changes: bool = False
) -> frozenset[str] | None:
    """Names that a function takes from outside; None if it is not fit for its results to be kept.

    ``changes``: it may set attributes of objects.
    """
    own = {a.arg for a in walk(node.args) if isinstance(a, ast.arg)}
    loads: set[str] = set()
    size = 0
    for statement in node.body:
        for child in walk(statement):
            size += 1
            if size > _LARGE:
                return None
            if isinstance(child, ast.Name):
                if isinstance(child.ctx, ast.Load):
                    loads.add(child.id)
                else:
                    own.add(child.id)
            elif isinstance(child, _UNFIT):
                return None
            elif isinstance(child, ast.Attribute) and not isinstance(child.ctx, ast.Load):
                if not changes:
                    return None
        own |= stored_names(statement)
    return None if "super" in loads else frozenset(loads - own)


def is_short(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether computing a result costs no more than looking it up."""
    found = _SHORT.get(node)
    if found is None:
        size = sum(1 for statement in node.body for _ in walk(statement))
        found = _SHORT[node] = size < _COSTLY
    return found


_UNFIT = (
    ast.Global
    | ast.Nonlocal
    | ast.FunctionDef
    | ast.ClassDef
    | ast.Import
    | ast.ImportFrom
    | ast.Yield
    | ast.YieldFrom
    | ast.Await
    | ast.With
)
