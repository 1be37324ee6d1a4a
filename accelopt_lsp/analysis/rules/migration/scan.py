"""What a kernel is written with: its calls, names and loops by canonical name, in its own file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeVar

from attrs import field, frozen

from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.names import Aliases
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import FunctionNode, function_node, module_of
from accelopt_lsp.analysis.uses import uses_of

N = TypeVar("N", bound=ast.AST)


@frozen(slots=True, eq=False)
class Scan:
    """Syntax of one kernel and of the functions of its file that it calls.

    Attributes:
        kernel: the kernel's definition.
        functions: the kernel, then those that it reaches.
        nodes: statements and expressions of these, in the order of the text.
        calls: (canonical name, call) of what NKI, NumPy and other imports provide.
        names: (canonical name, node) of every dotted name that is an import.
        outside: calls of the file that stand in no kernel, by canonical name.
    """

    kernel: FunctionNode
    functions: tuple[FunctionNode, ...]
    nodes: tuple[ast.AST, ...]
    calls: tuple[tuple[str, ast.Call], ...]
    names: tuple[tuple[str, ast.expr], ...]
    outside: tuple[tuple[str, ast.Call], ...] = field(default=())

    def calls_of(self, *wanted: str) -> Iterator[ast.Call]:
        """Calls of these canonical names; ``nisa.*`` stands for all of a module."""
        exact = frozenset(w for w in wanted if not w.endswith("*"))
        heads = tuple(w[:-1] for w in wanted if w.endswith("*"))
        for name, call in self.calls:
            if name in exact or (heads and name.startswith(heads)):
                yield call


def canonical_name(node: ast.AST, aliases: Aliases) -> str | None:
    """Canonical name of a dotted expression, or None if it is no import."""
    parts: list[str] = []
    current = node
    while isinstance(current, ast.Attribute):
        parts.append(current.attr)
        current = current.value
    if not isinstance(current, ast.Name):
        return None
    parts.append(current.id)
    return aliases.canonical(".".join(reversed(parts)))


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """What a call gives for a keyword, or None."""
    return next((k.value for k in call.keywords if k.arg == name), None)


def scan(document: Document, kernel: KernelSource) -> Scan | None:
    """The kernel's scan; None if it does not parse."""
    key = f"migration scan {kernel.line}"
    if key not in document.cache:
        document.cache[key] = _scan(document, kernel)
    found: Scan | None = document.cache[key]
    return found


def _scan(document: Document, kernel: KernelSource) -> Scan | None:
    node = function_node(document, kernel)
    if node is None:
        return None
    module = module_of(document)
    functions = _reached(module, node)
    named = _Named(kernel.aliases)
    uses = [uses_of(function) for function in functions]
    inside = {id(call) for use in uses for _, call in use.calls}
    outside = [
        pair
        for statement in module.body
        for pair in named.some(uses_of(statement).calls)
        if id(pair[1]) not in inside
    ]
    return Scan(
        node,
        tuple(functions),
        tuple(n for use in uses for n in use.nodes),
        tuple(pair for use in uses for pair in named.some(use.calls)),
        tuple(pair for use in uses for pair in named.some(use.names)),
        tuple(outside),
    )


class _Named:
    """Canonical names of a file's dotted names, each looked up once."""

    def __init__(self, aliases: Aliases) -> None:
        self._aliases = aliases
        self._known: dict[str, str | None] = {}

    def some(self, pairs: Iterable[tuple[str, N]]) -> Iterator[tuple[str, N]]:
        """Those pairs whose name is an import, with its canonical form."""
        for dotted, node in pairs:
            if dotted not in self._known:
                self._known[dotted] = self._aliases.canonical(dotted)
            name = self._known[dotted]
            if name is not None:
                yield name, node


def _reached(module: ast.Module, kernel: FunctionNode) -> list[FunctionNode]:
    """The kernel and the functions of the file that it calls, directly or not."""
    defined: dict[str, FunctionNode] = {
        n.name: n for n in module.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    found: dict[FunctionNode, None] = {kernel: None}
    pending = [kernel]
    while pending:
        for name in sorted(uses_of(pending.pop()).loads & defined.keys()):
            other = defined[name]
            if other not in found:
                found[other] = None
                pending.append(other)
    return list(found)
