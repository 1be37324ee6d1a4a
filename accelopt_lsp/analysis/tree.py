"""Typed syntax of a document for the interpreter, also while it does not parse.

CPython's own parser gives the typed tree of everything that tree-sitter does not find broken
(:mod:`~accelopt_lsp.analysis.chunks`). Lines stay where they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from accelopt_lsp.analysis.chunks import statements_of
from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.diagnostics import Position, Span

_KEY = "module"

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def module_of(document: Document) -> ast.Module:
    """The typed tree of a document; broken statements are missing. Never raises."""
    cache = document.cache
    found: ast.Module | None = cache.get(_KEY)
    if found is None:
        found = cache[_KEY] = ast.Module(body=statements_of(document), type_ignores=[])
    return found


_LEAVES = frozenset(
    "attr arg asname conversion ctx id is_async kind level module n names op ops rest s simple "
    "type_comment type_ignores".split()
)
"""Fields that hold no statement, no expression and nothing with a place of its own."""
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """Fields of a kind of node that can hold further nodes."""
    own = {ast.Constant: ("value",), ast.MatchClass: ("kwd_attrs",), ast.keyword: ("arg",)}
    known = _FIELDS[kind] = tuple(
        name for name in kind._fields if name not in _LEAVES and name not in own.get(kind, ())
    )
    return known


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below one, itself included, operators and contexts apart; in no set order.

    Several times as fast as :func:`ast.walk`.
    """
    stack: list[Any] = [node]
    fields = _FIELDS
    while stack:
        current = stack.pop()
        yield current
        kind = current.__class__
        names = fields.get(kind)
        for name in _fields_of(kind) if names is None else names:
            value = getattr(current, name, None)
            if value.__class__ is list:
                stack.extend([item for item in value if isinstance(item, ast.AST)])
            elif isinstance(value, ast.AST):
                stack.append(value)


N = TypeVar("N", bound=ast.AST)
_BELOW: WeakKeyDictionary[ast.AST, dict[type[ast.AST], list[Any]]] = WeakKeyDictionary()
"""Nodes below others, these not included: a tree that its own entry held would never be freed."""


def nodes_by_kind(root: ast.AST) -> dict[type[ast.AST], list[Any]]:
    """Nodes below one and itself, by their exact kind. Found once: trees do not change."""
    kind = root.__class__
    below = _below(root)
    return {**below, kind: [root, *below.get(kind, ())]}


def _below(root: ast.AST) -> dict[type[ast.AST], list[Any]]:
    found = _BELOW.get(root)
    if found is None:
        found = _BELOW[root] = {}
        nodes = walk(root)
        next(nodes)
        for node in nodes:
            found.setdefault(node.__class__, []).append(node)
    return found


def nodes_of(root: ast.AST, kind: type[N]) -> list[N]:
    """Nodes of one kind below one, itself included; many rules share one walk."""
    found = _below(root).get(kind, [])
    return [root, *found] if root.__class__ is kind else found


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node, without looking into expressions."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, ast.stmt):
            yield current
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            value = getattr(current, name, None)
            if isinstance(value, list):
                stack.extend(value)


def dotted(node: ast.AST) -> str | None:
    """``a.b.c`` as text, or None for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def function_node(document: Document, kernel: KernelSource) -> FunctionNode | None:
    """The typed node of a kernel, or None if it does not parse."""
    functions: dict[tuple[int, str], FunctionNode] | None = document.cache.get("functions")
    if functions is None:
        functions = document.cache["functions"] = {
            (node.lineno, node.name): node
            for node in statements(module_of(document))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    return functions.get((kernel.line, kernel.name))


def span_of(document: Document, node: ast.AST) -> Span:
    """Where a typed node stands."""
    line = getattr(node, "lineno", 1)
    end_line = getattr(node, "end_lineno", None) or line
    start = Position(line, document.column_of(line, getattr(node, "col_offset", 0)))
    end_column = getattr(node, "end_col_offset", None) or 0
    return Span(start, Position(end_line, document.column_of(end_line, end_column)))
