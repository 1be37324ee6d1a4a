"""Which functions of a file kernels reach, by the names in their text."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from attrs import frozen

from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import FunctionNode, function_node, module_of, nodes_of

_KEY = "reached"


@frozen(slots=True, eq=False)
class Reached:
    """A function that a kernel is, or calls.

    Attributes:
        node: the function.
        kernel: the first kernel of the file that reaches it.
        own: it is that kernel itself.
    """

    node: FunctionNode
    kernel: KernelSource
    own: bool


def reached_functions(document: Document, kernels: tuple[KernelSource, ...]) -> tuple[Reached, ...]:
    """Kernels and what they name: functions of the file, and methods of its classes."""
    found: tuple[Reached, ...] | None = document.cache.get(_KEY)
    if found is None:
        found = document.cache[_KEY] = tuple(_reach(document, kernels))
    return found


def _reach(document: Document, kernels: tuple[KernelSource, ...]) -> Iterator[Reached]:
    if not kernels:
        return
    known = definitions(document)
    seen: set[ast.AST] = set()
    pending: list[tuple[ast.AST, KernelSource, bool]] = []
    for kernel in reversed(kernels):
        start = function_node(document, kernel)
        if start is not None:
            pending.append((start, kernel, True))
    while pending:
        node, kernel, own = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Reached(node, kernel, own)
        elif isinstance(node, ast.ClassDef):
            pending.extend((n, kernel, False) for n in node.body if isinstance(n, ast.FunctionDef))
            continue
        named = {n.id for n in nodes_of(node, ast.Name)} & known.keys()
        pending.extend((known[name], kernel, False) for name in sorted(named))


def definitions(document: Document) -> dict[str, FunctionNode | ast.ClassDef]:
    """Functions and classes at the top of a file, by name."""
    cache = document.cache
    known: dict[str, FunctionNode | ast.ClassDef] | None = cache.get("definitions")
    if known is not None:
        return known
    found: dict[str, FunctionNode | ast.ClassDef] = {}
    cache["definitions"] = found
    for statement in module_of(document).body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[statement.name] = statement
    return found
