"""A notebook's code cells as one Python text, and which line belongs to which cell. Knows no LSP.

The text is the cells' lines, one cell after the other in the order of the notebook (the order in
which somebody has run them is not known). Every line of a cell is one line of the text, so that
places differ by a number of lines only. Magics of IPython become ``pass``, and a cell that breaks
off within brackets or a string is closed by a line of its own: no other cell suffers from it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from attrs import field, frozen

_LINE_END = re.compile(r"\r\n|\r|\n")
_MAGIC = re.compile(r"\s*(?:[%!?]|[\w.]+\?{1,2}\s*$|[\w.,\s]+=\s*[%!](?!=))")
_PYTHON_CELL_MAGICS = frozenset({"time", "timeit", "capture", "prun"})
"""Cell magics whose rest is Python of the notebook itself."""
_STRING_START = re.compile(r"[rRbBuUfF]{0,2}('''|\"\"\"|'|\")")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_BROKEN = "$"
"""What is no Python wherever it stands: a cell that breaks off must not look complete."""


def split_lines(text: str) -> list[str]:
    """Lines of a text as LSP counts them, without their ends."""
    return _LINE_END.split(text)


@frozen(slots=True)
class _State:
    """Where a scanner is at the end of a line: within which string and which brackets."""

    quote: str = ""
    brackets: str = ""
    joined: bool = False

    @property
    def closed(self) -> bool:
        return not self.quote and not self.brackets and not self.joined


def _after(line: str, state: _State) -> _State:
    quote, brackets, at = state.quote, state.brackets, 0
    while at < len(line):
        char = line[at]
        if quote:
            if char == "\\":
                at += 2
            elif line.startswith(quote, at):
                at += len(quote)
                quote = ""
            else:
                at += 1
            continue
        found = _STRING_START.match(line, at)
        if char == "#":
            return _State("", brackets)
        if found is not None and (at == 0 or not (line[at - 1].isalnum() or line[at - 1] == "_")):
            quote = found[1]
            at = found.end()
        elif char in _CLOSING:
            brackets += char
            at += 1
        elif char in ")]}":
            # Of a wrong pair the interpreter complains; here it only matters that it ends.
            brackets = brackets[:-1]
            at += 1
        elif char in "'\"":
            quote = char
            at += 1
        else:
            at += 1
    joined = line.endswith("\\") and not quote
    # A string in single quotes ends with its line, unless that is joined to the next one.
    if len(quote) == 1 and not line.endswith("\\"):
        quote = ""
    return _State(quote, brackets, joined)


def python_lines(text: str) -> tuple[list[str], str]:
    """A cell's lines as Python, one for one, and a line that ends what the cell leaves open.

    That line is empty where the cell is complete.
    """
    lines = split_lines(text)
    first = next((n for n, line in enumerate(lines) if line.strip()), None)
    if first is not None and lines[first].startswith("%%"):
        name = lines[first][2:].split(None, 1)[0] if lines[first][2:].strip() else ""
        if name not in _PYTHON_CELL_MAGICS:
            return ["#" if line.strip() else "" for line in lines], ""
    found, state = [], _State()
    for line in lines:
        if state.closed and _MAGIC.match(line):
            line = line[: len(line) - len(line.lstrip())] + "pass"
        else:
            state = _after(line, state)
        found.append(line)
    if state.closed:
        return found, ""
    closing = "".join(_CLOSING[b] for b in reversed(state.brackets))
    return found, f"{state.quote}{closing} {_BROKEN}"


@frozen(slots=True)
class Cell:
    """One code cell: its name (a URI, for instance) and its text."""

    name: str
    text: str


@frozen(slots=True)
class Layout:
    """The text of a notebook, and where its cells stand in it.

    Attributes:
        names: of the cells, in their order.
        starts: line, from 0, at which each cell begins.
        counts: how many lines each cell has.
        text: of all cells together.
    """

    names: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    text: str = field(default="", repr=False)

    @classmethod
    def of(cls, cells: Iterable[Cell]) -> Layout:
        names, starts, counts, lines = [], [], [], list[str]()
        for cell in cells:
            python, closing = python_lines(cell.text)
            names.append(cell.name)
            starts.append(len(lines))
            counts.append(len(python))
            lines += [*python, closing] if closing else python
        text = "".join(f"{line}\n" for line in lines)
        return cls(tuple(names), tuple(starts), tuple(counts), text)

    def place(self, line: int) -> tuple[int, int]:
        """Number of the cell, and line within it, of a line of the text (all from 0).

        A line behind a cell that belongs to none is that cell's last one; so is all that stands
        behind the last cell. There must be a cell.
        """
        number = max(0, bisect_right(self.starts, line) - 1)
        return number, min(max(0, line - self.starts[number]), self.counts[number] - 1)

    def number(self, name: str) -> int:
        return self.names.index(name)

    def line(self, name: str, line: int) -> int:
        """Line of the text of a line of a cell; lines beyond the cell are its last one."""
        number = self.number(name)
        return self.starts[number] + min(max(0, line), self.counts[number] - 1)

    def holds(self, name: str, line: int) -> bool:
        """Whether a line of the text belongs to a cell."""
        return bool(self.names) and self.names[self.place(line)[0]] == name


def spliced(
    cells: Sequence[str], start: int, delete_count: int, inserted: Sequence[str]
) -> list[str]:
    """A list in which some items were replaced by others."""
    return [*cells[:start], *inserted, *cells[start + delete_count :]]
