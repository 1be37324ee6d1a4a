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
from accelopt_lsp.analysis.tree import walk
from accelopt_lsp.analysis.values import ClassValue, Function, Instance, NamedTuple, Ref, Value
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer

MAX_DEPTH = 6
_FREE: WeakKeyDictionary[ast.AST, frozenset[str] | None] = WeakKeyDictionary()
"""By function: names that it takes from outside; None if it changes something."""
_COSTLY = 12
"""Nodes below which looking a result up costs as much as computing it."""


def is_plain(value: Value) -> bool:
    """Whether a value can neither change nor hold what can."""
    if isinstance(value, bool | int | float | str | None | DType | Buffer | Ref | Affine):
        return True
    if isinstance(value, tuple):
        return all(is_plain(v) for v in value)
    return isinstance(value, Instance) and value.cls.kind == "enum"


def memory_key(
    m: Machine, function: Function, args: list[Value], kwargs: dict[str, Value]
) -> Any | None:
    """What a call's result depends on; None if it may depend on more."""
    node = function.node
    if isinstance(node, ast.Lambda) or function.owner is not None or not _is_pure(m, function, 0):
        return None
    parts: list[Any] = []
    for value in (*args, *kwargs.values()):
        if not is_plain(value):
            return None
        parts.append(_part(value))
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
        _FREE[node] = _free_names(node)
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
        elif not is_plain(value) and name in (home.parsed.bindings if home.parsed else ()):
            # Names that the module does not bind are imports and builtins.
            return False
    return True


def _free_names(node: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str] | None:
    own = {a.arg for a in walk(node.args) if isinstance(a, ast.arg)}
    loads: set[str] = set()
    size = 0
    for statement in node.body:
        for child in walk(statement):
            size += 1
            if isinstance(child, ast.Name):
                if isinstance(child.ctx, ast.Load):
                    loads.add(child.id)
                else:
                    own.add(child.id)
            elif isinstance(child, _UNFIT):
                return None
            elif isinstance(child, ast.Attribute) and not isinstance(child.ctx, ast.Load):
                return None
        own |= stored_names(statement)
    if size < _COSTLY:
        return None
    return frozenset(loads - own)


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
