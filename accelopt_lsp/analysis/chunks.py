"""A file as its top-level statements, each with a typed tree that outlives the document.

An edit leaves most statements as they were: their trees come from a cache keyed by text and
line, and only the others are parsed again. A tree is shared by all documents that hold the same
text at the same place; nobody changes one. (Where lines moved, parsing again costs no more than
renumbering every node would.)
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import groupby

from attrs import define, field, frozen
from tree_sitter import Node

from accelopt_lsp.analysis.limited import LimitedCache
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.python_source import parse_python

CACHED_CHARACTERS = 1_000_000
"""Source text whose trees are kept; a tree takes about thirty bytes a character."""
_ATTEMPTS = 8
_BYTE_ORDER_MARK = "\ufeff".encode()
_LONE_RETURN = re.compile(r"\r(?!\n)")
_KEY = "chunks"


@frozen(slots=True, eq=False)
class Chunk:
    """Top-level statements that share no line with any other.

    Attributes:
        text: from the first statement's first character to the last one's end.
        line, end_line: where that stands, from 1.
        nodes: tree-sitter's nodes of it.
        broken: tree-sitter found an error in it.
    """

    text: str
    line: int
    end_line: int
    nodes: tuple[Node, ...] = field(repr=False)
    broken: bool = False


@define(slots=True)
class _Group:
    """Nodes that share lines, while chunks are collected."""

    nodes: list[Node]
    last_row: int


def chunks_of(document: Document) -> tuple[Chunk, ...]:
    """The chunks of a document, in the order of the text. Never raises."""
    found: tuple[Chunk, ...] | None = document.cache.get(_KEY)
    if found is None:
        found = document.cache[_KEY] = tuple(_chunks(document))
    return found


def _chunks(document: Document) -> Iterator[Chunk]:
    root = document.root
    if root.type != "module":
        yield Chunk(document.text, 1, document.line_count, (root,), broken=True)
        return
    groups: list[_Group] = []
    for node in root.children:
        if node.type == "comment":
            continue
        first, last = int(node.start_point.row), int(node.end_point.row)
        if groups and first <= groups[-1].last_row:
            groups[-1].nodes.append(node)
            groups[-1].last_row = max(groups[-1].last_row, last)
        else:
            groups.append(_Group([node], last))
    for group in groups:
        first_node, last_node = group.nodes[0], group.nodes[-1]
        yield Chunk(
            document.slice(first_node.start_byte, last_node.end_byte),
            int(first_node.start_point.row) + 1,
            group.last_row + 1,
            tuple(group.nodes),
            broken=any(n.has_error for n in group.nodes) or _is_indented(document, first_node),
        )


def _is_indented(document: Document, node: Node) -> bool:
    mark = len(_BYTE_ORDER_MARK) if document.data.startswith(_BYTE_ORDER_MARK) else 0
    return node.start_point.column > 0 and node.start_byte != mark


_TREES: LimitedCache[tuple[str, int], list[ast.stmt]] = LimitedCache(CACHED_CHARACTERS)


def statements_of(document: Document) -> list[ast.stmt]:
    """Typed top-level statements of a document; broken ones are missing. Never raises."""
    chunks = chunks_of(document)
    found = [_TREES.get((c.text, c.line)) for c in chunks]
    new = (i for i, trees in enumerate(found) if trees is None)
    # Neighbours are parsed at one go.
    for broken, run in groupby(new, key=lambda i: chunks[i].broken):
        for part in _neighbours(list(run)):
            if broken:
                for i in part:
                    found[i] = _lenient(document, chunks[i])
            else:
                found[part[0] : part[-1] + 1] = _parsed(document, chunks[part[0] : part[-1] + 1])
    for chunk, trees in zip(chunks, found, strict=True):
        if trees is not None:
            _TREES.put((chunk.text, chunk.line), trees, len(chunk.text))
    return [statement for trees in found for statement in trees or ()]


def _neighbours(numbers: list[int]) -> Iterator[list[int]]:
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        yield [number for _, number in run]


def _parsed(document: Document, chunks: Sequence[Chunk]) -> list[list[ast.stmt] | None]:
    """Trees of neighbouring chunks."""
    if len(chunks) == 1:
        trees, _ = _try_parse(chunks[0].text, chunks[0].line)
        return [_lenient(document, chunks[0]) if trees is None else trees]
    start, end = chunks[0].nodes[0].start_byte, chunks[-1].nodes[-1].end_byte
    trees, _ = _try_parse(document.slice(start, end), chunks[0].line)
    if trees is None:
        middle = len(chunks) // 2
        return [*_parsed(document, chunks[:middle]), *_parsed(document, chunks[middle:])]
    found: list[list[ast.stmt] | None] = []
    position = 0
    for chunk in chunks:
        first = position
        while position < len(trees) and _first_line(trees[position]) <= chunk.end_line:
            position += 1
        found.append(trees[first:position])
    return found


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", ())
    lines: list[int] = [node.lineno, *(d.lineno for d in decorators)]
    return min(lines)


def _try_parse(text: str, line: int) -> tuple[list[ast.stmt] | None, int | None]:
    """Statements of a piece that starts on ``line``; or None, and the line that is wrong."""
    if "\r" in text:
        # It ends a line for CPython, but not for tree-sitter, which numbers the lines.
        text = _LONE_RETURN.sub(" ", text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse_python("\n" * (line - 1) + text).body, None
    except SyntaxError as error:
        return None, error.lineno
    except (ValueError, RecursionError, MemoryError):
        return None, None


def _lenient(document: Document, chunk: Chunk) -> list[ast.stmt]:
    """Trees of what is left when broken statements are blanked out."""
    # Whole lines: the chunk may be indented where it should not be.
    lines = document.lines[chunk.line - 1 : chunk.end_line]
    for node in _broken_statements(chunk.nodes):
        _blank(lines, *_rows(node, chunk))
    for attempt in range(_ATTEMPTS):
        trees, line = _try_parse("\n".join(lines), chunk.line)
        if trees is not None:
            return trees
        if line is None or not _blank_around(chunk, lines, line - chunk.line, attempt):
            break
    return []


def _rows(node: Node, chunk: Chunk) -> tuple[int, int]:
    first = chunk.line - 1
    return int(node.start_point.row) - first, int(node.end_point.row) - first


def _broken_statements(nodes: Sequence[Node]) -> list[Node]:
    """Smallest statements that contain a syntax error."""
    found: list[Node] = []
    stack = list(nodes)
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
    first, last = max(first, 0), min(last, len(lines) - 1)
    if first > last:
        return
    text = lines[first]
    indent = text[: len(text) - len(text.lstrip())]
    lines[first] = f"{indent}pass"
    for row in range(first + 1, last + 1):
        lines[row] = ""


def _blank_around(chunk: Chunk, lines: list[str], row: int, attempt: int) -> bool:
    """Blank the statement that covers a row; later attempts take the whole chunk's.

    Gives False if that changes nothing.
    """
    before = list(lines)
    for node in chunk.nodes:
        first, last = _rows(node, chunk)
        if first <= row <= last:
            if attempt < _ATTEMPTS // 2:
                point = (row + chunk.line - 1, len(lines[row]) - len(lines[row].lstrip()))
                inner = node.descendant_for_point_range(point, point)
                if inner is not None:
                    first, last = _rows(_statement(inner), chunk)
            _blank(lines, first, last)
    if lines == before and 0 <= row < len(lines):
        lines[row] = ""
    return lines != before


def grow_older(most: int) -> None:
    """An analysis is over; trees that the last ``most`` did not use are dropped."""
    _TREES.grow_older(most)


def forget() -> None:
    """Drop every kept tree."""
    _TREES.clear()
