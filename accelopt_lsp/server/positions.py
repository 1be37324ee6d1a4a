"""Places in a text, in LSP's terms and in ours.

LSP counts lines from 0, ended by ``\\n``, ``\\r\\n`` or ``\\r``, and columns in the code units
that client and server agreed on. Our spans count lines from 1, ended by ``\\n``, and columns
from 1 in code points. Offsets in code points connect the two.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from lsprotocol import types as lsp

from accelopt_lsp.nki.diagnostics import Position, Span

_LINE_END = re.compile(r"\r\n|\r|\n")


def units(text: str, encoding: str) -> int:
    """Length of a text in the code units of ``encoding`` (utf-8, utf-16 or utf-32)."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text) + sum(c > "\uffff" for c in text)


def code_points(text: str, count: int, encoding: str) -> int:
    """How many characters make up the first ``count`` code units of a text.

    A count inside a character rounds down to its start; one beyond the end is the end.
    """
    if encoding == "utf-32" or text.isascii():
        return min(count, len(text))
    seen = 0
    for index, char in enumerate(text):
        seen += units(char, encoding)
        if seen > count:
            return index
    return len(text)


class LineIndex:
    """A text and where its lines start."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self.text = text
        self.encoding = encoding

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(m.end() for m in _LINE_END.finditer(self.text))]

    @cached_property
    def _newline_starts(self) -> list[int]:
        """Starts of lines as our spans count them; differs only where a lone CR ends a line."""
        return [0, *(i + 1 for i, c in enumerate(self.text) if c == "\n")]

    @property
    def line_count(self) -> int:
        return len(self._starts)

    def line(self, number: int) -> str:
        """An LSP line without its end; empty beyond the text."""
        if not 0 <= number < len(self._starts):
            return ""
        start = self._starts[number]
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def offset(self, position: lsp.Position) -> int:
        """Offset in code points of an LSP position; places outside the text are clamped."""
        if position.line >= len(self._starts):
            return len(self.text)
        line = self.line(position.line)
        return self._starts[position.line] + code_points(line, position.character, self.encoding)

    def position(self, offset: int) -> lsp.Position:
        """LSP position of an offset."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset) - 1
        before = self.text[self._starts[line] : offset]
        return lsp.Position(line, units(before, self.encoding))

    def range(self, start: int, end: int) -> lsp.Range:
        return lsp.Range(self.position(start), self.position(end))

    def span_offset(self, position: Position) -> int:
        """Offset of one of our positions, clamped to its line."""
        starts = self._newline_starts
        line = min(max(position.line - 1, 0), len(starts) - 1)
        end = starts[line + 1] - 1 if line + 1 < len(starts) else len(self.text)
        return min(starts[line] + max(position.column - 1, 0), end)

    def span_range(self, span: Span) -> lsp.Range:
        """LSP range of a span."""
        start = self.span_offset(span.start)
        return self.range(start, max(start, self.span_offset(span.end)))

    def span_position(self, position: lsp.Position) -> Position:
        """An LSP position in our terms."""
        offset = self.offset(position)
        line = bisect_right(self._newline_starts, offset) - 1
        return Position(line + 1, offset - self._newline_starts[line] + 1)

    def end_of_line(self, line: int) -> lsp.Position:
        """End of the text of a line, counted from 1."""
        number = line - 1
        return lsp.Position(number, units(self.line(number).rstrip(), self.encoding))

    def line_range(self, line: int) -> lsp.Range:
        """From the first to the last visible character of a line, counted from 1."""
        text = self.line(line - 1)
        indent = len(text) - len(text.lstrip())
        start = lsp.Position(line - 1, units(text[:indent], self.encoding))
        end = self.end_of_line(line)
        return lsp.Range(start, end if end.character >= start.character else start)
