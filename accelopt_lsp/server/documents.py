"""Open documents: their text as the client has it, and where older lines are now.

Analyses lag behind typing. Each document remembers its recent edits as replaced line ranges,
so that figures of the last finished analysis are shown at the lines that they belong to.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import define, field, frozen
from lsprotocol import types as lsp
from pygls.uris import to_fs_path

from accelopt_lsp.server.positions import LineIndex

_generations = itertools.count(1)
MOST_EDITS = 500
"""Edits that a document remembers, to say where lines of earlier texts are."""
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_LONE_RETURN = re.compile(r"\r(?!\n)")


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


def file_of(uri: str) -> Path | None:
    """File of a URI; None for what is in no file of this machine, or in none that can be."""
    try:
        found = to_fs_path(uri)
    except ValueError:
        return None
    return Path(found) if found and "\0" not in found else None


def path_of(uri: str) -> Path:
    """File of a URI; an unsaved document gets a name in the working folder."""
    found = file_of(uri)
    if found is not None:
        return found
    path = re.split(r"[?#]", uri, maxsplit=1)[0]
    name = re.split(r"[:/]", path)[-1].replace("\0", "") or "untitled"
    try:
        folder = Path.cwd()
    except OSError:  # it was deleted
        folder = Path("/")
    return folder / (name if name.endswith(".py") else f"{name}.py")


def plain(text: str) -> str:
    """A text whose lines end with a newline where a carriage return alone ended them.

    LSP and Python end lines there, too; our spans do not. Half a surrogate pair, which nothing
    can write to a file, is replaced. No offset changes.
    """
    if "\r" in text:
        text = _LONE_RETURN.sub("\n", text)
    return text if text.isascii() else _HALF_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", text)


@define(slots=True, eq=False)
class Document:
    """One open document.

    Attributes:
        uri, path: where it is.
        text: as the client has it now, with :func:`plain` ends of lines.
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
    _remembered_from: int = field(init=False)
    _raw: str = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._raw = self.text
        self._remembered_from = self.generation
        self.text = plain(self.text)
        self.index = LineIndex(self.text, self.encoding)

    @property
    def is_file(self) -> bool:
        """Whether it is a file's text: neither unsaved nor some other version of a file."""
        return file_of(self.uri) is not None

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
        head = _common_prefix(self._raw, new)
        head = self.text.rfind("\n", 0, head) + 1
        tail = _common_prefix(self._raw[head:][::-1], new[head:][::-1])
        self._replace(head, len(self._raw) - tail, new[head : len(new) - tail])

    def _replace(self, start: int, end: int, new: str) -> None:
        # Whether a carriage return stands alone depends on what follows it.
        if start > 0 and self._raw[start - 1] == "\r":
            start, new = start - 1, f"\r{new}"
        old = self._raw[start:end]
        if self._raw[end : end + 1] == "\n" and (old.endswith("\r") or new.endswith("\r")):
            end, old, new = end + 1, f"{old}\n", f"{new}\n"
        if old == new:
            return
        self._raw = self._raw[:start] + new + self._raw[end:]
        old, new = plain(old), plain(new)
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
        forgotten = self._edits[:-MOST_EDITS]
        if forgotten:
            self._remembered_from = forgotten[-1].generation
            del self._edits[:-MOST_EDITS]

    def current_line(self, line: int, generation: int) -> int | None:
        """Where a line of an earlier text is now; None if it was rewritten, or nobody knows."""
        found: int | None = line if generation >= self._remembered_from else None
        for edit in self._edits:
            if edit.generation > generation and found is not None:
                found = edit.forward(found)
        return found

    def earlier_line(self, line: int, generation: int) -> int | None:
        """Where a line of the current text was in an earlier one; None if it is new, or nobody
        knows."""
        found: int | None = line if generation >= self._remembered_from else None
        for edit in reversed(self._edits):
            if edit.generation > generation and found is not None:
                found = edit.backward(found)
        return found


def file_name(name: str, suffix: str) -> str:
    """The name of a file about a kernel; no file system takes names of any length."""
    return name.encode("utf-8", "replace")[:100].decode("utf-8", "ignore") + suffix


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
