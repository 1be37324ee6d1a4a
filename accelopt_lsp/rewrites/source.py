"""Edits of a text that leave every other line byte-identical."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from attrs import define, frozen

from accelopt_lsp.nki.lines import split_lines
from accelopt_lsp.rewrites.base import NotApplicable


@frozen(slots=True, order=True)
class Edit:
    """Replace the characters from ``start`` up to ``end``."""

    start: int
    end: int
    text: str


@define(slots=False)
class SourceText:
    """A text whose places are named by AST nodes and lines (from 1)."""

    text: str

    @cached_property
    def lines(self) -> list[str]:
        return split_lines(self.text)

    @cached_property
    def line_starts(self) -> list[int]:
        starts, position = [], 0
        for line in self.lines:
            starts.append(position)
            position += len(line)
        starts.append(position)
        return starts

    @property
    def newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def offset(self, line: int, byte_column: int) -> int:
        """Character offset of a place that an AST node names."""
        text = self.lines[line - 1]
        if text.isascii():
            return int(self.line_starts[line - 1]) + byte_column
        return int(self.line_starts[line - 1]) + len(text.encode()[:byte_column].decode())

    def span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self.offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self.offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def of(self, node: ast.AST) -> str:
        """The node's text as written."""
        start, end = self.span(node)
        return self.text[start:end]

    def one_line(self, node: ast.AST) -> str:
        """The node's text with line breaks folded away."""
        text = self.of(node)
        if "\n" not in text:
            return text
        folded = re.sub(r"\s*\n\s*", " ", text)
        return re.sub(r"(?<=[\[(]) | (?=[\])])", "", folded)

    def replace(self, node: ast.AST, text: str) -> Edit:
        return Edit(*self.span(node), text)

    def first_line(self, node: ast.stmt) -> int:
        decorators = getattr(node, "decorator_list", [])
        return min(node.lineno, *(int(d.lineno) for d in decorators), node.lineno)

    def indent_of(self, node: ast.AST) -> str:
        line = self.lines[node.lineno - 1]  # type: ignore[attr-defined]
        return line[: len(line) - len(line.lstrip())]

    def check_whole_lines(self, node: ast.stmt) -> None:
        """Raises :class:`NotApplicable` if the statement shares a line with another."""
        first, last = self.lines[node.lineno - 1], self.lines[(node.end_lineno or 0) - 1]
        tail = last.encode()[node.end_col_offset :].decode().strip()
        if first[
            : self.offset(node.lineno, node.col_offset) - self.line_starts[node.lineno - 1]
        ].strip():
            raise NotApplicable(f"line {node.lineno} holds more than one statement")
        if tail and not tail.startswith("#"):
            raise NotApplicable(f"line {node.end_lineno} holds more than one statement")

    def comments_above(self, node: ast.stmt, floor: int = 0) -> int:
        """First line of the comment block that stands directly above a statement.

        Args:
            floor: line that does not belong to it any more (end of the statement before).
        """
        line = self.first_line(node)
        indent = self.indent_of(node)
        while line - 1 > floor:
            above = self.lines[line - 2]
            if not above.strip().startswith("#") or not above.startswith(indent + "#"):
                break
            line -= 1
        return line

    def line_range(self, first: int, last: int) -> tuple[int, int]:
        """Character range of whole lines."""
        return self.line_starts[first - 1], self.line_starts[last]

    def delete_lines(self, first: int, last: int) -> Edit:
        return Edit(*self.line_range(first, last), "")

    def insert_before_line(self, line: int, text: str) -> Edit:
        start = self.line_starts[line - 1]
        return Edit(start, start, text)

    def insert(self, offset: int, text: str) -> Edit:
        return Edit(offset, offset, text)

    def apply(self, edits: Iterable[Edit]) -> str:
        """The edited text.

        Raises:
            NotApplicable: two edits overlap.
        """
        return apply_edits(self.text, edits)

    def extract(self, first: int, last: int, edits: Iterable[Edit] = ()) -> str:
        """Whole lines with the edits that lie inside them applied."""
        start, end = self.line_range(first, last)
        inner = [
            Edit(e.start - start, e.end - start, e.text)
            for e in edits
            if e.start >= start and e.end <= end
        ]
        return apply_edits(self.text[start:end], inner)

    def indent_unit(self, tree: ast.AST) -> str:
        """What one level of indentation is made of in this text."""
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.For | ast.If | ast.With) and node.body:
                outer, inner = self.indent_of(node), self.indent_of(node.body[0])
                if inner.startswith(outer) and len(inner) > len(outer):
                    if node.body[0].lineno > node.lineno:
                        return inner[len(outer) :]
        return "    "


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The edited text; equal edits count once.

    Raises:
        NotApplicable: two edits overlap.
    """
    parts, position = [], 0
    for edit in sorted(set(edits)):
        if edit.start < position:
            raise NotApplicable("two edits of this rewrite overlap")
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    parts.append(text[position:])
    return "".join(parts)


def reindent(text: str, old: str, new: str) -> str:
    """Move lines from one indentation to another; strings over several lines stay as they are.

    Lines that are less indented than ``old`` (continuations) shift by the same width.
    """
    if old == new:
        return text
    lines = split_lines(text)
    inside = _inside_strings(text)
    result = []
    for number, line in enumerate(lines, start=1):
        if number in inside or not line.strip():
            result.append(line)
        elif line.startswith(old):
            result.append(new + line[len(old) :])
        else:
            stripped = line.lstrip(" \t")
            width = len(line) - len(stripped) + len(new) - len(old)
            result.append(" " * max(width, 0) + stripped)
    return "".join(result)


def _inside_strings(text: str) -> set[int]:
    """Lines that begin inside a string literal."""
    import io
    import textwrap
    import tokenize

    inside: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(textwrap.dedent(text)).readline):
            if token.type == tokenize.STRING and token.end[0] > token.start[0]:
                inside.update(range(token.start[0] + 1, token.end[0] + 1))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        pass
    return inside


def names_in(nodes: ast.AST | Sequence[ast.AST]) -> set[str]:
    """All identifiers used as names."""
    roots = nodes if isinstance(nodes, Sequence) else [nodes]
    return {n.id for root in roots for n in ast.walk(root) if isinstance(n, ast.Name)}


def all_identifiers(tree: ast.AST) -> set[str]:
    """Every identifier of a tree: names, arguments, functions, imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found


def fresh_name(wanted: str, taken: set[str]) -> str:
    """``wanted``, or with the first free number behind it; becomes taken."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name)
    return name
