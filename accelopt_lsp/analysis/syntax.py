"""Source text and its syntax tree: parsing is incremental and never raises.

Offsets inside a :class:`Document` are bytes of its UTF-8 text, as tree-sitter counts them;
everything that leaves it speaks of lines and columns from 1, columns in code points.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import tree_sitter_python
from attrs import field, frozen
from tree_sitter import Language, Node, Parser, Point, Tree

from accelopt_lsp.nki.diagnostics import Diagnostic, Position, Severity, Span
from accelopt_lsp.nki.python_source import check_python

SYNTAX_ERROR = "S001"
MAX_SYNTAX_ERRORS = 50
"""More than these help nobody; the first few hide the rest."""
MAX_COMPILED = 1_000_000
"""Characters of a text that CPython checks although the grammar finds nothing in it: 0.1 s."""


@cache
def python_language() -> Language:
    """The Python grammar."""
    return Language(tree_sitter_python.language())


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _code_points(data: bytes) -> int:
    """Code points in a piece of UTF-8 text, also if it is cut inside one."""
    if data.isascii():
        return len(data)
    return sum((byte & 0xC0) != 0x80 for byte in data)


def _line_starts(data: bytes) -> list[int]:
    starts = [0]
    position = data.find(b"\n")
    while position >= 0:
        starts.append(position + 1)
        position = data.find(b"\n", position + 1)
    return starts


@frozen(slots=True, eq=False)
class Document:
    """A text with its syntax tree.

    Attributes:
        text: the source.
        data: the same in UTF-8.
        tree: tree-sitter's tree of it.
        cache: what others derived from this text, by key.
    """

    text: str
    data: bytes = field(repr=False)
    tree: Tree = field(repr=False)
    _starts: list[int] = field(repr=False)
    cache: dict[str, Any] = field(factory=dict, repr=False)

    @classmethod
    def parse(cls, text: str) -> Document:
        """Parse a text from scratch. Never raises on any text."""
        data = _encode(text)
        return cls(text, data, Parser(python_language()).parse(data), _line_starts(data))

    def edited(
        self, start_byte: int, old_end_byte: int, new_end_byte: int, new_text: str
    ) -> Document:
        """The document after one edit, reusing unchanged parts of the tree.

        Where a text is broken, what the grammar makes of it may depend on the tree that was
        there before; such a text is parsed anew, so that the same text has the same findings.

        Args:
            start_byte: where the edit starts.
            old_end_byte: end of what is replaced, in this document.
            new_end_byte: end of what replaces it, in the new document.
            new_text: the whole new text.
        """
        data = _encode(new_text)
        starts = _line_starts(data)
        if not self.root.has_error:
            tree = self.tree.copy()
            tree.edit(
                start_byte,
                old_end_byte,
                new_end_byte,
                _point(self._starts, start_byte),
                _point(self._starts, old_end_byte),
                _point(starts, new_end_byte),
            )
            parsed = Parser(python_language()).parse(data, old_tree=tree)
            if not parsed.root_node.has_error:
                return Document(new_text, data, parsed, starts)
        return Document(new_text, data, Parser(python_language()).parse(data), starts)

    def replaced(self, start_byte: int, end_byte: int, replacement: str) -> Document:
        """The document with ``[start_byte, end_byte)`` replaced, parsed incrementally."""
        piece = _encode(replacement)
        data = self.data[:start_byte] + piece + self.data[end_byte:]
        text = data.decode("utf-8", "surrogatepass")
        return self.edited(start_byte, end_byte, start_byte + len(piece), text)

    def updated(self, text: str) -> Document:
        """The document after whatever edit leads to ``text``; itself if nothing changed."""
        if text == self.text:
            return self
        data = _encode(text)
        start = _common_prefix(self.data, data)
        shorter = min(len(self.data), len(data)) - start
        kept = _common_prefix(
            self.data[len(self.data) - shorter :][::-1], data[len(data) - shorter :][::-1]
        )
        return self.edited(start, len(self.data) - kept, len(data) - kept, text)

    @property
    def root(self) -> Node:
        return self.tree.root_node

    @property
    def lines(self) -> list[str]:
        """Lines without their line ends; index 0 is line 1."""
        found: list[str] | None = self.cache.get("lines")
        if found is None:
            found = self.cache["lines"] = [t.removesuffix("\r") for t in self.text.split("\n")]
        return found

    @property
    def line_count(self) -> int:
        return len(self._starts)

    def position_at(self, byte: int) -> Position:
        """Line and column of a byte offset; offsets outside the text are clipped."""
        byte = max(0, min(byte, len(self.data)))
        row = bisect_right(self._starts, byte) - 1
        return Position(row + 1, _code_points(self.data[self._starts[row] : byte]) + 1)

    def byte_at(self, position: Position) -> int:
        """Byte offset of a line and column; places outside the text are clipped."""
        if position.line > len(self._starts):
            return len(self.data)
        row = max(position.line, 1) - 1
        start = self._starts[row]
        end = self._starts[row + 1] - 1 if row + 1 < len(self._starts) else len(self.data)
        line = self.data[start:end]
        wanted = max(position.column, 1) - 1
        if line.isascii():
            return start + min(wanted, len(line))
        seen = 0
        for offset, byte in enumerate(line):
            if (byte & 0xC0) != 0x80:
                if seen == wanted:
                    return start + offset
                seen += 1
        return end

    def column_of(self, line: int, byte_column: int) -> int:
        """Column in code points, from 1, of a byte column counted from 0 (as ``ast`` has it)."""
        if not 1 <= line <= len(self._starts):
            return 1
        start = self._starts[line - 1]
        return _code_points(self.data[start : start + byte_column]) + 1

    def span(self, node: Node) -> Span:
        """Where a node stands."""
        return Span(self.position_at(node.start_byte), self.position_at(node.end_byte))

    def line_span(self, line: int) -> Span:
        """A line without its indentation and trailing blanks."""
        text = self.lines[line - 1] if 1 <= line <= len(self.lines) else ""
        start = len(text) - len(text.lstrip())
        end = max(len(text.rstrip()), start)
        return Span(Position(line, start + 1), Position(line, end + 1))

    def slice(self, start_byte: int, end_byte: int) -> str:
        """The text between two byte offsets."""
        return _decode(self.data[start_byte:end_byte])

    def node_text(self, node: Node) -> str:
        return self.slice(node.start_byte, node.end_byte)

    def line_of(self, node: Node) -> int:
        """Line, from 1, on which a node starts."""
        return int(node.start_point.row) + 1

    @property
    def statements(self) -> tuple[Node, ...]:
        """Statements and definitions at any depth, in the order of the text."""
        found: tuple[Node, ...] | None = self.cache.get("statements")
        if found is None:
            found = self.cache["statements"] = tuple(_statements(self.root))
        return found

    def calls_of(self, names: Iterable[str]) -> Iterator[tuple[Node, Node]]:
        """Calls of these names: ``f(x)``, ``m.f(x)``, ``f[0](x)``; the name's node and the call.

        Only the names' places in the text are looked at: a large file has thousands of calls.
        """
        text = "|".join(sorted({re.escape(name) for name in names}))
        for match in re.finditer(rf"\b(?:{text})\b".encode(), self.data):
            node = self.root.named_descendant_for_byte_range(*match.span())
            if node is None or node.type != "identifier":
                continue
            callee = node
            while callee.parent is not None and callee.parent.type in ("attribute", "subscript"):
                callee = callee.parent
            if callee.parent is not None and callee.parent.type == "call":
                if callee.parent.child_by_field_name("function") == callee:
                    yield node, callee.parent

    def syntax_errors(self) -> tuple[Diagnostic, ...]:
        """What does not parse, in the order of the text; at most :data:`MAX_SYNTAX_ERRORS`.

        The first is CPython's: its words and place are better than the grammar's, which may
        give up a whole function for a line in it, or take `x = nl.` and the next line for one
        statement. What the grammar finds before is of the first kind; what it finds behind,
        CPython has not come to.
        """
        first = self._python_error()
        found = [] if first is None else [first]
        behind = 0 if first is None else first.span.start.line
        for node in _error_nodes(self.root):
            if len(found) >= MAX_SYNTAX_ERRORS:
                break
            span = self._error_span(node)
            if span.start.line > behind:
                text = f"missing {node.type!r}" if node.is_missing else "invalid syntax"
                found.append(Diagnostic(SYNTAX_ERROR, Severity.ERROR, text, span))
        return tuple(found)

    def _error_span(self, node: Node) -> Span:
        """An error's range, kept to the line it starts on: recovery may swallow whole functions."""
        start = self.position_at(node.start_byte)
        end = self.position_at(node.end_byte)
        if end.line > start.line:
            end = max(start, self.line_span(start.line).end)
        if end <= start:
            end = Position(start.line, start.column + 1)
        return Span(start, end)

    def _python_error(self) -> Diagnostic | None:
        """CPython's first error; None if it finds none or cannot read the text at all."""
        accepted = not self.root.has_error
        if accepted and len(self.text) > MAX_COMPILED:
            return None
        try:
            check_python(self.text)
        except SyntaxError as error:
            # Before 3.12 CPython does not know what an f-string may hold since.
            if accepted and error.msg.startswith("f-string"):
                return None
            return self._said_by_python(error, accepted)
        except (ValueError, RecursionError, MemoryError):
            return None
        return None

    def _said_by_python(self, error: SyntaxError, accepted: bool) -> Diagnostic:
        line = min(max(error.lineno or 1, 1), self.line_count)
        whole = self.line_span(line)
        start, end = whole.start, whole.end
        if error.offset and error.offset > 0:
            start = min(max(Position(line, error.offset), whole.start), end)
            if error.end_lineno == line and (error.end_offset or 0) > error.offset:
                end = min(end, Position(line, error.end_offset or 0))
        if end <= start:
            end = Position(line, start.column + 1)
        # What the grammar accepts may be Python of another version.
        by = f" (Python {sys.version_info.major}.{sys.version_info.minor})" if accepted else ""
        return Diagnostic(SYNTAX_ERROR, Severity.ERROR, error.msg + by, Span(start, end))


_WITH_STATEMENTS = frozenset(
    "module block function_definition class_definition decorated_definition if_statement "
    "elif_clause else_clause for_statement while_statement with_statement try_statement "
    "except_clause except_group_clause finally_clause match_statement case_clause ERROR".split()
)


def _statements(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type.endswith(("_statement", "_definition")):
            yield node
        if node.type in _WITH_STATEMENTS:
            stack.extend(reversed(node.named_children))


def _common_prefix(a: bytes, b: bytes) -> int:
    """Length of what two texts begin with alike."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _point(starts: list[int], byte: int) -> Point:
    row = bisect_right(starts, byte) - 1
    return Point(row, byte - starts[row])


def _error_nodes(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            yield node
        elif node.has_error:
            stack.extend(reversed(node.children))
