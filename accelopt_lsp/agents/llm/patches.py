"""Patches as models write them: unified diffs, search-and-replace blocks, "apply patch" blocks.

Places are found by content, since the line numbers of models are guesses. Lines that a patch
does not change stay as they are, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from accelopt_lsp.nki.lines import split_lines

MAX_FUZZ = 2
"""Lines of context, at either end of a hunk, that may be wrong."""
_HUNK = re.compile(r"^@@.*$", re.MULTILINE)
_SEARCH = re.compile(
    r"^<{5,9} ?SEARCH[^\n]*\n(.*?)^={5,9}[ \t]*\n(.*?)^>{5,9} ?REPLACE[^\n]*$",
    re.MULTILINE | re.DOTALL,
)
_BESIDE = ("--- ", "+++ ", "\\", "diff ", "index ", "*** ")
_CLEANERS: tuple[Callable[[str], str], ...] = (str.rstrip, str.strip)

Hunk = list[tuple[str, str]]
"""(mark, text) of each line; the mark is a blank, ``-`` or ``+``."""


class Unfitting(ValueError):
    """A patch that cannot be applied. The message says why, for the fixer."""


def is_patch(text: str) -> bool:
    """Whether a text is a patch rather than code."""
    return _HUNK.search(text) is not None or _SEARCH.search(text) is not None


def apply_patch(source: str, patch: str) -> str:
    """A text with a patch applied.

    Raises:
        Unfitting: a hunk does not fit, or fits several places equally well.
    """
    patch = patch.replace("\r\n", "\n")
    lines = split_lines(source)
    ending = "\r\n" if source.count("\r\n") * 2 > source.count("\n") else "\n"
    found = False
    for hunk in _hunks(patch):
        if all(mark == " " for mark, _ in hunk):
            continue
        found = True
        start, used = _place(lines, hunk)
        old = sum(mark != "+" for mark, _ in used)
        lines[start : start + old] = _applied(used, lines[start : start + old], ending)
    if not found:
        raise Unfitting("the diff has no hunk (@@ ... @@) that changes anything")
    return "".join(lines)


def _hunks(patch: str) -> Iterator[Hunk]:
    for found in _SEARCH.finditer(patch):
        yield [
            (mark, line)
            for mark, part in zip("-+", found.groups(), strict=True)
            for line in part.splitlines()
        ]
    for chunk in _HUNK.split(_SEARCH.sub("", patch))[1:]:
        hunk: Hunk = []
        for line in chunk.strip("\n").split("\n"):
            if line.startswith(_BESIDE):
                continue
            if line[:1] in (" ", "-", "+"):
                hunk.append((line[0], line[1:]))
            else:
                # A context line whose leading blank was lost.
                hunk.append((" ", line))
        yield hunk


def _place(lines: Sequence[str], hunk: Hunk) -> tuple[int, Hunk]:
    """Where a hunk belongs, and the part of it that fits there."""
    shown = next((text.strip() for mark, text in hunk if mark != "+" and text.strip()), "")
    if not shown:
        raise Unfitting("a hunk of the diff has no line to find its place by")
    for fuzz in range(MAX_FUZZ + 1):
        part = _trimmed(hunk, fuzz)
        if part is None:
            break
        for clean in _CLEANERS:
            want = [clean(text) for mark, text in part if mark != "+"]
            have = [clean(line) for line in lines]
            last = len(have) - len(want)
            places = [at for at in range(last + 1) if have[at : at + len(want)] == want]
            if len(places) == 1:
                return places[0], part
            if places:
                raise Unfitting(
                    f"a hunk fits {len(places)} places; give more context: {shown[:80]!r}"
                )
    raise Unfitting(f"a hunk does not fit the code: no place for {shown[:80]!r}")


def _trimmed(hunk: Hunk, fuzz: int) -> Hunk | None:
    """A hunk without that many lines of context at either end; None if nothing is left."""
    start, end = 0, len(hunk)
    for _ in range(fuzz):
        if start < end and hunk[start][0] == " ":
            start += 1
        if end > start and hunk[end - 1][0] == " ":
            end -= 1
    part = hunk[start:end]
    if fuzz and (part == hunk or not any(m != "+" and t.strip() for m, t in part)):
        return None
    return part


def _applied(hunk: Hunk, old: Sequence[str], ending: str) -> list[str]:
    """Lines in place of ``old``; added ones are indented as the lines beside them really are."""
    new: list[str] = []
    rest = list(old)
    shift = next(
        (_shift(line, text) for line, text in zip(old, _old(hunk), strict=True) if text.strip()), 0
    )
    for mark, text in hunk:
        if mark == "+":
            new.append(f"{_moved(text, shift).rstrip()}{ending}")
            continue
        line = rest.pop(0)
        if text.strip():
            shift = _shift(line, text)
        if mark == " ":
            new.append(line)
    if new and old and not old[-1].endswith(("\n", "\r")):
        new[-1] = new[-1].rstrip("\r\n")
    for number, line in enumerate(new[:-1]):
        if not line.endswith(("\n", "\r")):
            new[number] = line + ending
    return new


def _old(hunk: Hunk) -> list[str]:
    return [text for mark, text in hunk if mark != "+"]


def _shift(line: str, text: str) -> int:
    """Columns by which a line stands further right in the file than in the patch."""
    return _column(line) - _column(text)


def _column(line: str) -> int:
    spaced = line.expandtabs(4)
    return len(spaced) - len(spaced.lstrip())


def _moved(text: str, shift: int) -> str:
    spaced = text.expandtabs(4) if text[:1] == "\t" or shift else text
    if shift >= 0:
        return " " * shift + spaced if spaced.strip() else spaced
    return spaced[min(-shift, _column(spaced)) :]
