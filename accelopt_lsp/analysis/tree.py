"""Typed syntax of a document for the interpreter, also while it does not parse.

tree-sitter tells which statements are broken; they are blanked, and CPython's own parser
gives the typed tree of the rest. Lines stay where they are.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from tree_sitter import Node

from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.diagnostics import Position, Span

_KEY = "module"
_ATTEMPTS = 8

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def module_of(document: Document) -> ast.Module:
    """The typed tree of a document; broken statements are missing. Never raises."""
    cache = document.cache
    found: ast.Module | None = cache.get(_KEY)
    if found is None:
        found = cache[_KEY] = _parse(document)
    return found


def _parse(document: Document) -> ast.Module:
    module, _ = _try_parse(document.text)
    if module is not None:
        return module
    lines = document.text.split("\n")
    for node in _broken_statements(document):
        _blank(lines, int(node.start_point.row), int(node.end_point.row))
    for _ in range(_ATTEMPTS):
        module, line = _try_parse("\n".join(lines))
        if module is not None:
            return module
        if line is None or not _blank_around(document, lines, line - 1):
            break
    return ast.Module(body=[], type_ignores=[])


def _try_parse(text: str) -> tuple[ast.Module | None, int | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text), None
    except SyntaxError as error:
        return None, error.lineno
    except (ValueError, RecursionError, MemoryError):
        return None, None


def _broken_statements(document: Document) -> list[Node]:
    """Smallest statements that contain a syntax error."""
    found: list[Node] = []
    stack = [document.root]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            found.append(_statement(node))
        elif node.has_error:
            stack.extend(node.children)
    return found


def _statement(node: Node) -> Node:
    current = node
    while current.parent is not None and current.parent.type not in ("block", "module"):
        current = current.parent
    return current


def _blank(lines: list[str], first: int, last: int) -> None:
    last = min(last, len(lines) - 1)
    if first > last:
        return
    text = lines[first]
    indent = text[: len(text) - len(text.lstrip())]
    lines[first] = f"{indent}pass"
    for row in range(first + 1, last + 1):
        lines[row] = ""


def _blank_around(document: Document, lines: list[str], row: int) -> bool:
    """Blank the top-level statement that covers a row; False if that changes nothing."""
    before = list(lines)
    for node in document.root.children:
        if int(node.start_point.row) <= row <= int(node.end_point.row):
            _blank(lines, int(node.start_point.row), int(node.end_point.row))
    if lines == before and 0 <= row < len(lines):
        lines[row] = ""
    return lines != before


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below one, itself included; faster than :func:`ast.walk`, in no set order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        for name in current._fields:
            value = getattr(current, name, None)
            if isinstance(value, ast.AST):
                stack.append(value)
            elif isinstance(value, list):
                stack.extend([item for item in value if isinstance(item, ast.AST)])


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


def call_nodes(document: Document, line: int) -> list[ast.Call]:
    """Calls that begin on a line."""
    calls: dict[int, list[ast.Call]] | None = document.cache.get("call nodes")
    if calls is None:
        calls = document.cache["call nodes"] = {}
        for node in walk(module_of(document)):
            if isinstance(node, ast.Call):
                calls.setdefault(node.lineno, []).append(node)
    return calls.get(line, [])


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
