"""What a kernel is written with: its calls, names and loops by canonical name, in its own file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from attrs import field, frozen

from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.names import Aliases
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import FunctionNode, function_node, module_of, walk


@frozen(slots=True, eq=False)
class Scan:
    """Syntax of one kernel and of the functions of its file that it calls.

    Attributes:
        kernel: the kernel's definition.
        functions: the kernel, then those that it reaches.
        nodes: all nodes of their bodies, in the order of the text.
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
    nodes: list[ast.AST] = []
    for function in functions:
        nodes.extend(walk(function))
    nodes.sort(key=lambda n: (getattr(n, "lineno", 0), getattr(n, "col_offset", 0)))
    calls, names = _named(nodes, kernel.aliases)
    inside = {id(n) for n in nodes}
    others = [n for n in walk(module) if isinstance(n, ast.Call) and id(n) not in inside]
    others.sort(key=lambda n: (n.lineno, n.col_offset))
    outside, _ = _named(list(others), kernel.aliases)
    return Scan(node, tuple(functions), tuple(nodes), tuple(calls), tuple(names), tuple(outside))


def _named(
    nodes: list[ast.AST], aliases: Aliases
) -> tuple[list[tuple[str, ast.Call]], list[tuple[str, ast.expr]]]:
    calls: list[tuple[str, ast.Call]] = []
    names: list[tuple[str, ast.expr]] = []
    for node in nodes:
        if isinstance(node, ast.Call):
            name = canonical_name(node.func, aliases)
            if name is not None:
                calls.append((name, node))
        elif isinstance(node, ast.Attribute | ast.Name):
            name = canonical_name(node, aliases)
            if name is not None:
                names.append((name, node))
    return calls, names


def _reached(module: ast.Module, kernel: FunctionNode) -> list[FunctionNode]:
    """The kernel and the functions of the file that it calls, directly or not."""
    defined: dict[str, FunctionNode] = {
        n.name: n for n in module.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    found: list[FunctionNode] = [kernel]
    for function in found:
        for node in walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                other = defined.get(node.id)
                if other is not None and other not in found:
                    found.append(other)
    return found
