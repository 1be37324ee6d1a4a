"""Which names a loop body hands from one iteration to the next."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from accelopt_lsp.analysis.tree import walk

Names = frozenset[str]
_Loop = ast.For | ast.AsyncFor
_CARRIED: WeakKeyDictionary[ast.AST, tuple[str, ...]] = WeakKeyDictionary()
_ASSIGNED: WeakKeyDictionary[ast.AST, Names] = WeakKeyDictionary()
_USES: WeakKeyDictionary[ast.AST, tuple[Names, Names]] = WeakKeyDictionary()
_NOTHING: tuple[Names, Names] = (frozenset(), frozenset())


def carried_names(node: _Loop) -> tuple[str, ...]:
    """Names that a loop's body reads before it has set them, and sets too."""
    found = _CARRIED.get(node)
    if found is None:
        exposed: set[str] = set()
        _block(node.body, set(_uses(node.target)[1]), exposed)
        found = _CARRIED[node] = tuple(sorted(exposed & stored_names(node)))
    return found


def assigned_names(node: _Loop) -> tuple[str, ...]:
    """Names that a loop binds, its variable included."""
    return tuple(sorted(stored_names(node)))


def _uses(node: ast.AST | None) -> tuple[Names, Names]:
    """Names that an expression or a simple statement reads, and those that it sets."""
    if node is None:
        return _NOTHING
    found = _USES.get(node)
    if found is None:
        loads: set[str] = set()
        stores: set[str] = set()
        for child in walk(node):
            if isinstance(child, ast.Name):
                (loads if isinstance(child.ctx, ast.Load) else stores).add(child.id)
        found = _USES[node] = (frozenset(loads), frozenset(stores))
    return found


def stored_names(node: ast.stmt) -> Names:
    """Names that a statement sets, whatever is inside it."""
    found = _ASSIGNED.get(node)
    if found is None and isinstance(node, _DEFINES):
        found = _ASSIGNED[node] = frozenset({node.name})
    if found is None:
        children = [c for name in _BLOCKS for c in getattr(node, name, ())]
        if children:
            names: set[str] = set()
            for child in children:
                body = child.body if isinstance(child, ast.ExceptHandler) else [child]
                for statement in body:
                    names |= stored_names(statement)
            for header in _headers(node):
                names |= _uses(header)[1]
            found = frozenset(names)
        else:
            found = _uses(node)[1]
        _ASSIGNED[node] = found
    return found


def names_set_by(body: Iterable[ast.stmt]) -> tuple[str, ...]:
    """Names that statements set, in alphabetical order."""
    return tuple(sorted({name for statement in body for name in stored_names(statement)}))


_DEFINES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_BLOCKS = ("body", "orelse", "finalbody", "handlers")


def _headers(node: ast.stmt) -> Iterable[ast.AST]:
    """Expressions of a compound statement's first line."""
    if isinstance(node, ast.For | ast.AsyncFor):
        return (node.target, node.iter)
    if isinstance(node, ast.If | ast.While):
        return (node.test,)
    if isinstance(node, ast.With | ast.AsyncWith):
        return node.items
    return ()


def _reads(node: ast.AST | None, defined: set[str], exposed: set[str]) -> None:
    exposed |= _uses(node)[0] - defined


def _block(body: list[ast.stmt], defined: set[str], exposed: set[str]) -> None:
    for node in body:
        _statement(node, defined, exposed)


def _statement(node: ast.stmt, defined: set[str], exposed: set[str]) -> None:
    if isinstance(node, ast.AugAssign):
        _reads(node.value, defined, exposed)
        if isinstance(node.target, ast.Name):
            exposed |= {node.target.id} - defined
        else:
            _reads(node.target, defined, exposed)
    elif isinstance(node, ast.If):
        _reads(node.test, defined, exposed)
        then, other = set(defined), set(defined)
        _block(node.body, then, exposed)
        _block(node.orelse, other, exposed)
        defined |= then & other
    elif isinstance(node, ast.For | ast.AsyncFor):
        _reads(node.iter, defined, exposed)
        _block(node.body, set(defined) | _uses(node.target)[1], exposed)
        _block(node.orelse, set(defined), exposed)
    elif isinstance(node, ast.While):
        _reads(node.test, defined, exposed)
        _block(node.body, set(defined), exposed)
    elif isinstance(node, ast.With | ast.AsyncWith):
        for item in node.items:
            _reads(item, defined, exposed)
        _block(node.body, defined, exposed)
    elif isinstance(node, ast.Try):
        _block(node.body, defined, exposed)
        for handler in node.handlers:
            _block(handler.body, set(defined), exposed)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        local = {a.arg for a in walk(node) if isinstance(a, ast.arg)}
        local.update(name for statement in node.body for name in stored_names(statement))
        exposed |= _uses(node)[0] - defined - local
        defined.add(node.name)
    else:
        # The right side is read before the left side is set.
        loads, stores = _uses(node)
        exposed |= loads - defined
        defined |= stores
