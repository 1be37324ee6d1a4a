"""Which names a top-level statement is written with, found once for each text of it."""

from __future__ import annotations

import ast
from weakref import WeakKeyDictionary

from attrs import evolve, frozen

from accelopt_lsp.analysis.tree import walk

_USES: WeakKeyDictionary[ast.AST, tuple[Uses, int]] = WeakKeyDictionary()
"""Uses without the statement itself, and its place among the nodes: a statement that its own entry
held would never be freed."""


@frozen(slots=True, eq=False)
class Uses:
    """Syntax of one statement, whatever its depth, in the order of the text.

    Attributes:
        nodes: statements and expressions.
        calls: (dotted name as written, call) of calls of dotted names.
        names: (dotted name as written, node) of names, attributes of names and so on.
        loads: plain names that are read.
    """

    nodes: tuple[ast.AST, ...]
    calls: tuple[tuple[str, ast.Call], ...]
    names: tuple[tuple[str, ast.expr], ...]
    loads: frozenset[str]


def uses_of(statement: ast.stmt) -> Uses:
    """What a statement is written with; trees outlive edits, and so does this."""
    known = _USES.get(statement)
    if known is not None:
        below, at = known
        return evolve(below, nodes=(*below.nodes[:at], statement, *below.nodes[at:]))
    found = _uses(statement)
    at = next(i for i, node in enumerate(found.nodes) if node is statement)
    _USES[statement] = (evolve(found, nodes=(*found.nodes[:at], *found.nodes[at + 1 :])), at)
    return found


def _uses(statement: ast.AST) -> Uses:
    nodes = [n for n in walk(statement) if isinstance(n, ast.stmt | ast.expr)]
    nodes.sort(key=_place)
    dotted: dict[int, str | None] = {}
    calls: list[tuple[str, ast.Call]] = []
    names: list[tuple[str, ast.expr]] = []
    loads: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            names.append((node.id, node))
            if isinstance(node.ctx, ast.Load):
                loads.add(node.id)
        elif isinstance(node, ast.Attribute):
            name = _dotted(node, dotted)
            if name is not None:
                names.append((name, node))
        elif isinstance(node, ast.Call):
            name = _dotted(node.func, dotted)
            if name is not None:
                calls.append((name, node))
    return Uses(tuple(nodes), tuple(calls), tuple(names), frozenset(loads))


def _place(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _dotted(node: ast.expr, known: dict[int, str | None]) -> str | None:
    """``a.b.c`` as text, or None for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if not isinstance(node, ast.Attribute):
        return None
    if id(node) not in known:
        head = _dotted(node.value, known)
        known[id(node)] = None if head is None else f"{head}.{node.attr}"
    return known[id(node)]
