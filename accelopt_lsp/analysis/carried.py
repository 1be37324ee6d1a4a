"""Which names a loop body hands from one iteration to the next."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from accelopt_lsp.analysis.tree import walk

_CACHE: WeakKeyDictionary[ast.AST, tuple[str, ...]] = WeakKeyDictionary()
_ASSIGNED: WeakKeyDictionary[ast.AST, tuple[str, ...]] = WeakKeyDictionary()


def carried_names(node: ast.For | ast.AsyncFor) -> tuple[str, ...]:
    """Names that a loop's body reads before it has set them, and sets too."""
    found = _CACHE.get(node)
    if found is None:
        exposed: set[str] = set()
        defined = {n.id for n in walk(node.target) if isinstance(n, ast.Name)}
        _block(node.body, defined, exposed)
        assigned = set(_stores(node.body))
        found = _CACHE[node] = tuple(sorted(exposed & assigned))
    return found


def assigned_names(node: ast.For | ast.AsyncFor) -> tuple[str, ...]:
    """Names that a loop binds, its variable included."""
    found = _ASSIGNED.get(node)
    if found is None:
        targets = {n.id for n in walk(node.target) if isinstance(n, ast.Name)}
        found = _ASSIGNED[node] = tuple(sorted(targets | set(_stores(node.body))))
    return found


def _stores(body: Iterable[ast.stmt]) -> Iterable[str]:
    for statement in body:
        for child in walk(statement):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                yield child.id


def _reads(node: ast.AST | None, defined: set[str], exposed: set[str]) -> None:
    if node is None:
        return
    for child in walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
            if child.id not in defined:
                exposed.add(child.id)


def _targets(nodes: Iterable[ast.AST], defined: set[str], exposed: set[str]) -> None:
    for node in nodes:
        _reads(node, defined, exposed)
        for child in walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                defined.add(child.id)


def _block(body: list[ast.stmt], defined: set[str], exposed: set[str]) -> None:
    for node in body:
        _statement(node, defined, exposed)


def _statement(node: ast.stmt, defined: set[str], exposed: set[str]) -> None:
    if isinstance(node, ast.Assign):
        _reads(node.value, defined, exposed)
        _targets(node.targets, defined, exposed)
    elif isinstance(node, ast.AnnAssign):
        _reads(node.value, defined, exposed)
        _targets([node.target], defined, exposed)
    elif isinstance(node, ast.AugAssign):
        _reads(node.value, defined, exposed)
        if isinstance(node.target, ast.Name):
            if node.target.id not in defined:
                exposed.add(node.target.id)
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
        inner = set(defined) | {n.id for n in walk(node.target) if isinstance(n, ast.Name)}
        _block(node.body, inner, exposed)
        _block(node.orelse, set(defined), exposed)
    elif isinstance(node, ast.While):
        _reads(node.test, defined, exposed)
        _block(node.body, set(defined), exposed)
    elif isinstance(node, ast.With | ast.AsyncWith):
        for item in node.items:
            _reads(item.context_expr, defined, exposed)
        _block(node.body, defined, exposed)
    elif isinstance(node, ast.Try):
        _block(node.body, defined, exposed)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        own = set(defined) | {a.arg for a in walk(node) if isinstance(a, ast.arg)}
        local = set(_stores(node.body))
        _reads(node, own | local, exposed)
        defined.add(node.name)
    else:
        _reads(node, defined, exposed)
