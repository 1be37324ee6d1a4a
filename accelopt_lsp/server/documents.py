"""Open documents: their text as the client has it, and where older lines are now.

Analyses lag behind typing. Each document remembers its recent edits as replaced line ranges,
so that figures of the last finished analysis are shown at the lines that they belong to.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from attrs import define, field, frozen
from lsprotocol import types as lsp
from pygls.uris import to_fs_path

from accelopt_lsp.server.positions import LineIndex

_generations = itertools.count(1)


@frozen(slots=True)
class LineEdit:
    """Lines ``start`` to ``old_end`` became ``start`` to ``new_end`` (from 1, inclusive).

    ``above``: whole lines were inserted before line ``start``, which itself is unchanged.
    """

    generation: int
    start: int
    old_end: int
    new_end: int
    above: bool

    def forward(self, line: int) -> int | None:
        moved = self.new_end - self.old_end
        if line < self.start:
            return line
        if line > self.old_end or (self.above and line == self.start):
            return line + moved
        return line if line == self.start else None

    def backward(self, line: int) -> int | None:
        moved = self.new_end - self.old_end
        if line < self.start:
            return line
        if line > self.new_end or (self.above and line == self.new_end):
            return line - moved
        return line if line == self.start and not self.above else None


def path_of(uri: str) -> Path:
    """File of a URI; an unsaved document gets a name in the working folder."""
    found = to_fs_path(uri)
    if found:
        return Path(found)
    name = urlsplit(uri).path.rpartition("/")[2] or "untitled"
    return Path(name if name.endswith(".py") else f"{name}.py").absolute()


@define(slots=True, eq=False)
class Document:
    """One open document.

    Attributes:
        uri, path: where it is.
        text: as the client has it now.
        version: the client's number of this text.
        generation: our number of this text, unique over all documents and times.
        index: lines of the text.
    """

    uri: str
    path: Path
    text: str
    version: int | None
    encoding: str
    generation: int = field(factory=lambda: next(_generations))
    index: LineIndex = field(init=False)
    _edits: list[LineEdit] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.index = LineIndex(self.text, self.encoding)

    @property
    def concerns_nki(self) -> bool:
        """Whether the file can hold a kernel at all: other Python files cost nothing."""
        return "nki" in self.text

    def apply(
        self, changes: Sequence[lsp.TextDocumentContentChangeEvent], version: int | None
    ) -> None:
        """Take over the client's edits, in their order."""
        for change in changes:
            if isinstance(change, lsp.TextDocumentContentChangePartial):
                start = self.index.offset(change.range.start)
                end = max(start, self.index.offset(change.range.end))
                self._replace(start, end, change.text)
            else:
                self._replace_all(change.text)
        self.version = version

    def _replace_all(self, new: str) -> None:
        """A replacement of everything is mostly a small edit; only what differs has moved."""
        head = _common_prefix(self.text, new)
        head = self.text.rfind("\n", 0, head) + 1
        tail = _common_prefix(self.text[head:][::-1], new[head:][::-1])
        self._replace(head, len(self.text) - tail, new[head : len(new) - tail])

    def _replace(self, start: int, end: int, new: str) -> None:
        old = self.text[start:end]
        if old == new:
            return
        first = self.text.count("\n", 0, start) + 1
        self.text = self.text[:start] + new + self.text[end:]
        self.generation = next(_generations)
        self.index = LineIndex(self.text, self.encoding)
        at_line_start = start == 0 or self.text[start - 1] == "\n"
        self._edits.append(
            LineEdit(
                generation=self.generation,
                start=first,
                old_end=first + old.count("\n"),
                new_end=first + new.count("\n"),
                above=at_line_start and not old and new.endswith("\n"),
            )
        )
        del self._edits[:-500]

    def current_line(self, line: int, generation: int) -> int | None:
        """Where a line of an earlier text is now; None if it was rewritten."""
        found: int | None = line
        for edit in self._edits:
            if edit.generation > generation and found is not None:
                found = edit.forward(found)
        return found

    def earlier_line(self, line: int, generation: int) -> int | None:
        """Where a line of the current text was in an earlier one; None if it is new."""
        found: int | None = line
        for edit in reversed(self._edits):
            if edit.generation > generation and found is not None:
                found = edit.backward(found)
        return found


def _common_prefix(first: str, second: str) -> int:
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[:middle] == second[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Documents:
    """All open documents by URI."""

    def __init__(self) -> None:
        self._open: dict[str, Document] = {}
        self.encoding = "utf-16"

    def open(self, item: lsp.TextDocumentItem) -> Document:
        document = self.detached(item)
        self._open[item.uri] = document
        return document

    def detached(self, item: lsp.TextDocumentItem) -> Document:
        """A document that is not among the open ones: it is part of one of them."""
        return Document(
            item.uri, path_of(item.uri), item.text, item.version, encoding=self.encoding
        )

    def change(self, params: lsp.DidChangeTextDocumentParams) -> Document | None:
        document = self._open.get(params.text_document.uri)
        if document is not None:
            document.apply(params.content_changes, params.text_document.version)
        return document

    def close(self, uri: str) -> None:
        self._open.pop(uri, None)

    def get(self, uri: str) -> Document | None:
        return self._open.get(uri)

    def __iter__(self) -> Iterator[Document]:
        return iter(tuple(self._open.values()))
