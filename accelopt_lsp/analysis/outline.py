"""The outline of a file from its tree: definitions, loops and what can be folded."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from tree_sitter import Node

from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.outline import Entry, EntryKind, Fold, FoldKind, Outline

_BRACKETS = frozenset(
    "argument_list parameters list tuple dictionary set parenthesized_expression subscript "
    "list_comprehension dictionary_comprehension generator_expression import_from_statement".split()
)
_BLOCKS = frozenset(
    "function_definition class_definition for_statement while_statement if_statement "
    "with_statement try_statement match_statement elif_clause else_clause except_clause "
    "finally_clause case_clause".split()
)
_CLAUSES = frozenset("elif_clause else_clause except_clause finally_clause".split())
_IMPORTS = frozenset({"import_statement", "import_from_statement", "future_import_statement"})
_REGION = re.compile(r"\s*#\s*(end)?region\b")
MAX_DEPTH = 200
MAX_HEAD = 60


def outline(document: Document, kernel_lines: Collection[int]) -> Outline:
    """Definitions, loops and folds of a file.

    Args:
        kernel_lines: lines with the ``def`` of a kernel.
    """
    kernels = frozenset(kernel_lines)
    known: tuple[frozenset[int], Outline] | None = document.cache.get("outline")
    if known is not None and known[0] == kernels:
        return known[1]
    entries = tuple(_entries(document, document.root, kernels, False, 0))
    folds = {*_tree_folds(document.root), *_import_folds(document), *_line_folds(document)}
    found = Outline(entries, tuple(sorted(f for f in folds if f.end > f.start)))
    document.cache["outline"] = (kernels, found)
    return found


def _entries(
    document: Document, node: Node, kernels: frozenset[int], in_class: bool, depth: int
) -> Iterator[Entry]:
    """What a node defines, with what is defined inside it."""
    if depth > MAX_DEPTH:
        return
    for child in node.named_children:
        if child.type == "decorated_definition":
            inner = child.child_by_field_name("definition")
        else:
            inner = child
        if inner is None or inner.start_point.row == inner.end_point.row:
            continue
        kind = _kind(document, inner, kernels, in_class)
        body = inner.child_by_field_name("body")
        if kind is None:
            yield from _entries(document, inner, kernels, in_class, depth + 1)
            continue
        inside = inner if body is None else body
        children = tuple(_entries(document, inside, kernels, kind is EntryKind.CLASS, depth + 1))
        name = inner.child_by_field_name("name") or inner.child_by_field_name("left")
        yield Entry(
            _title(document, inner, kind),
            kind,
            document.span(child),
            document.span(name if name is not None else inner),
            children,
        )


def _kind(
    document: Document, node: Node, kernels: frozenset[int], in_class: bool
) -> EntryKind | None:
    if node.type == "class_definition":
        return EntryKind.CLASS
    if node.type == "for_statement":
        return EntryKind.LOOP
    if node.type != "function_definition":
        return None
    if document.line_of(node) in kernels:
        return EntryKind.KERNEL
    return EntryKind.METHOD if in_class else EntryKind.FUNCTION


def _title(document: Document, node: Node, kind: EntryKind) -> str:
    if kind is EntryKind.LOOP:
        right = node.child_by_field_name("right")
        end = node.start_byte if right is None else right.end_byte
        head = " ".join(document.slice(node.start_byte, end).split())
        return head if len(head) <= MAX_HEAD else f"{head[: MAX_HEAD - 1]}…"
    name = node.child_by_field_name("name")
    return (document.node_text(name) if name is not None else "") or "?"


def _tree_folds(root: Node) -> Iterator[Fold]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        first, last = int(node.start_point.row) + 1, int(node.end_point.row) + 1
        if first == last:
            continue
        waiting.extend(node.children)
        if node.type in _BLOCKS:
            yield Fold(first, _own_end(node, last))
        elif node.type in _BRACKETS:
            # The line of the closing bracket stays visible.
            yield Fold(first, last - 1)
        elif node.type == "string":
            yield Fold(first, last, FoldKind.COMMENT if _is_docstring(node) else FoldKind.CODE)


def _own_end(node: Node, last: int) -> int:
    """Last line of a statement without its ``else`` and other clauses, which fold by themselves."""
    clause = next((c for c in node.children if c.type in _CLAUSES), None)
    if clause is None:
        return last
    return int(clause.start_point.row)


def _is_docstring(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type == "expression_statement"


def _import_folds(document: Document) -> Iterator[Fold]:
    first = last = 0
    for child in document.root.named_children:
        if child.type in _IMPORTS:
            first = first or document.line_of(child)
            last = int(child.end_point.row) + 1
        elif child.type != "comment":
            yield Fold(first, last, FoldKind.IMPORTS)
            first = last = 0
    yield Fold(first, last, FoldKind.IMPORTS)


def _line_folds(document: Document) -> Iterator[Fold]:
    """Runs of whole-line comments, and what stands between region marks."""
    start = 0
    regions: list[int] = []
    strings = _string_lines(document)
    lines = document.lines
    for number, line in enumerate(lines, 1):
        text = line.lstrip()
        mark = _REGION.match(line) if text.startswith("#") and number not in strings else None
        if mark is not None:
            if not mark[1]:
                regions.append(number)
            elif regions:
                yield Fold(regions.pop(), number, FoldKind.REGION)
        if text.startswith("#") and mark is None and number not in strings:
            start = start or number
        elif start:
            yield Fold(start, number - 1, FoldKind.COMMENT)
            start = 0
    if start:
        yield Fold(start, len(lines), FoldKind.COMMENT)


def _string_lines(document: Document) -> frozenset[int]:
    """Lines that begin inside a string."""
    found: set[int] = set()
    waiting = [document.root]
    while waiting:
        node = waiting.pop()
        if node.start_point.row == node.end_point.row:
            continue
        if node.type == "string":
            found.update(range(int(node.start_point.row) + 2, int(node.end_point.row) + 2))
        else:
            waiting.extend(node.children)
    return frozenset(found)
