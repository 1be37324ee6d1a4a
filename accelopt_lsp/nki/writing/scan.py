"""Where a place in a text is: in code, a string or a comment, and inside which calls."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from attrs import define, field, frozen

_OPAQUE = re.compile(
    r"#[^\n]*"
    r'|"""(?:[^\\"]++|\\.|"(?!""))*+(?:"""|\\?\Z)'
    r"|'''(?:[^\\']++|\\.|'(?!''))*+(?:'''|\\?\Z)"
    r'|"(?:[^\\"\n]++|\\.)*+(?:"|\\?\Z|(?=\n))'
    r"|'(?:[^\\'\n]++|\\.)*+(?:'|\\?\Z|(?=\n))",
    re.DOTALL,
)
_STATEMENT = re.compile(
    r"^[ \t]*(?:(?:def|class|return|import|with|while|raise|assert|pass|try|elif|del|global"
    r"|nonlocal|break|continue|async)\b|from(?=[ \t]+[\w.]+[ \t]+import\b)"
    r"|@(?=\w[\w.]*[ \t]*(?:\(|$)))",
    re.MULTILINE,
)
_NAME_BEFORE = re.compile(r"[^\W\d]\w*(?:[ \t]*\.[ \t]*[^\W\d]\w*)*[ \t]*\Z")
_PIECE = re.compile(r"[()\[\]{},=*:\n]")
_KEYWORD = re.compile(r"\s*([^\W\d]\w*)\s*=(?!=)")
_WORD_BEFORE = re.compile(r"[^\W\d]\w*\Z")
_ASSIGNS = re.compile(r"[^\W\d][\w.\[\], ]* [-+*/|&]?= ")
_DEFINES = re.compile(r"\b(?:def|class)[ \t]+\Z")
_BLANKS = re.compile(r"[ \t]*")
_OPENING, _CLOSING = "([{", ")]}"
LONGEST_NAME = 200
"""Characters before a parenthesis in which the name of what is called is looked for."""
LOOK_AHEAD = 4000
"""Characters behind the place in which the rest of a call is looked for."""


class Where(StrEnum):
    """What a place is part of."""

    CODE = "code"
    STRING = "string"
    COMMENT = "comment"


@lru_cache(maxsize=4)
def masked(text: str) -> str:
    """A text of the same length without strings and comments.

    A string becomes a quote and underscores, line ends included: a value still stands there.
    """
    return _OPAQUE.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    found = match[0]
    if found[0] == "#":
        return " " * len(found)
    return '"' + "_" * (len(found) - 1)


def where(text: str, offset: int) -> tuple[Where, int]:
    """What the place behind ``offset`` characters is part of, and where that begins.

    For code that is the place itself.
    """
    last = last_match(_OPAQUE, text, 0, offset)
    if last is None or last.end() < offset:
        return Where.CODE, offset
    found = last[0]
    if found[0] == "#":
        return Where.COMMENT, last.start()
    quote = found[:3] if found[:3] in ('"""', "'''") else found[0]
    closed = len(found) >= 2 * len(quote) and found.endswith(quote) and not _escaped(found, quote)
    return (Where.CODE, offset) if closed else (Where.STRING, last.start())


def last_match(pattern: re.Pattern[str], text: str, start: int, end: int) -> re.Match[str] | None:
    """The last of all matches that do not overlap."""
    return max(pattern.finditer(text, start, end), key=re.Match.start, default=None)


def _escaped(found: str, quote: str) -> bool:
    body = found[: -len(quote)]
    return (len(body) - len(body.rstrip("\\"))) % 2 == 1


@define(slots=True)
class Argument:
    """One argument of a call as far as it is written.

    Attributes:
        start: where its text begins.
        keyword: the name in front of ``=``.
        starred: ``*`` or ``**`` in front of it.
    """

    start: int
    keyword: str | None = None
    starred: str = ""


@define(slots=True)
class OpenCall:
    """A call whose closing parenthesis comes after the place.

    Attributes:
        callee: dotted name, or empty if something else is called.
        callee_start: where that name begins.
        start: just behind the opening parenthesis.
        arguments: those up to the place; the last one is the one that the place is in.
    """

    callee: str
    callee_start: int
    start: int
    arguments: list[Argument] = field(factory=list)


@frozen(slots=True)
class _Bracket:
    char: str
    start: int
    indent: int
    call: OpenCall | None


def open_calls(code: str, offset: int) -> list[OpenCall]:
    """Calls that a place is inside of, the outermost first.

    Args:
        code: the text with strings and comments blank.
        offset: the place.

    A place inside a list or a group within an argument is still inside the call's argument.
    Brackets that an unfinished line above left open do not count.
    """
    stack: list[_Bracket] = []
    start = statement_start(code, offset)
    line_start = code.rfind("\n", 0, start) + 1
    for match in _PIECE.finditer(code, start, offset):
        char, at = match[0], match.start()
        if char == "\n":
            line_start = at + 1
            if stack and _new_statement(code, at + 1, offset, stack[0].indent):
                stack.clear()
        elif char in _OPENING:
            stack.append(_opened(code, char, at, line_start))
        elif char in _CLOSING:
            if stack:
                stack.pop()
        elif stack and (call := stack[-1].call) is not None:
            _argument(call, code, char, at)
    return [bracket.call for bracket in stack if bracket.call is not None]


def statement_start(code: str, offset: int) -> int:
    """Start of the last line before a place at which no bracket can be open any more."""
    window = max(0, offset - 20_000)
    start = code.rfind("\n", 0, window) + 1
    last = last_match(_STATEMENT, code, start, offset)
    return start if last is None else last.start()


def _new_statement(code: str, line_start: int, offset: int, indent: int) -> bool:
    """Whether a line is more likely a statement than the next line of an open bracket."""
    end = code.find("\n", line_start, offset)
    line = code[line_start : offset if end < 0 else end]
    text = line.lstrip()
    if not text or len(line) - len(text) > indent or text[0] in _CLOSING:
        return False
    return bool(_ASSIGNS.match(text)) or text.rstrip().endswith(":") or "(" in text


def _indent(code: str, line_start: int) -> int:
    """Blanks at the beginning of a line."""
    blanks = _BLANKS.match(code, line_start)
    return 0 if blanks is None else blanks.end() - line_start


def _opened(code: str, char: str, at: int, line_start: int) -> _Bracket:
    indent = _indent(code, line_start)
    call = None
    if char == "(":
        name = _NAME_BEFORE.search(code, max(line_start, at - LONGEST_NAME), at)
        text = "".join(name[0].split()) if name is not None else ""
        is_definition = name is not None and _DEFINES.search(
            code, max(line_start, name.start() - LONGEST_NAME), name.start()
        )
        after_value = at > 0 and code[at - 1] in ")]" and name is None
        if (text and not is_definition and text not in _NOT_CALLED) or after_value:
            begin = name.start() if name is not None else at
            call = OpenCall(text, begin, at + 1, [Argument(at + 1)])
            if begin > line_start and code[begin - 1] == ".":
                call.callee = f".{text}"
    return _Bracket(char, at, indent, call)


_NOT_CALLED = frozenset("in and or not if else for return yield lambda is assert print".split())


def _argument(call: OpenCall, code: str, char: str, at: int) -> None:
    argument = call.arguments[-1]
    if char == ",":
        call.arguments.append(Argument(at + 1))
    elif char == "=":
        name = _KEYWORD.match(code, argument.start)
        if name is not None and name.end() == at + 1:
            argument.keyword = name[1]
    elif char == "*" and not code[argument.start : at].strip(" \t\n*"):
        argument.starred += "*"


def keywords_behind(code: str, offset: int) -> frozenset[str]:
    """Keywords that the innermost call gives behind a place."""
    found: set[str] = set()
    depth, start = 0, -1
    indent = _indent(code, code.rfind("\n", 0, offset) + 1)
    end = min(len(code), offset + LOOK_AHEAD)
    for match in _PIECE.finditer(code, offset, end):
        char, at = match[0], match.start()
        if char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth -= 1
            if depth < 0:
                break
        elif char == "\n" and depth == 0 and _ends_call(code, at + 1, end, indent):
            break
        elif char == "," and depth == 0:
            start = at + 1
        elif char == "=" and depth == 0 and start >= 0:
            name = _KEYWORD.match(code, start)
            if name is not None and name.end() == at + 1:
                found.add(name[1])
    return frozenset(found)


def _ends_call(code: str, line_start: int, end: int, indent: int) -> bool:
    """Whether the line behind an unfinished call is the next statement."""
    return bool(_STATEMENT.match(code, line_start)) or _new_statement(code, line_start, end, indent)


@frozen(slots=True)
class Dotted:
    """The expression that a place ends.

    Attributes:
        base: what stands before the last dot, as written without blanks; empty without a dot.
        word: what is written of the last name.
        start: where the word begins.
        attribute: whether there is a dot.
    """

    base: str
    word: str
    start: int
    attribute: bool


def dotted_before(code: str, offset: int) -> Dotted:
    """What is written up to a place: ``nl.tile_size.pm`` has base ``nl.tile_size``."""
    line_start = code.rfind("\n", 0, offset) + 1
    word = _WORD_BEFORE.search(code, max(line_start, offset - LONGEST_NAME), offset)
    start = word.start() if word is not None else offset
    text = word[0] if word is not None else ""
    at = start
    while at > line_start and code[at - 1] in " \t":
        at -= 1
    if at == line_start or code[at - 1] != "." or code[at - 2 : at - 1].isdigit():
        return Dotted("", text, start, False)
    base_end = at - 1
    base_start = primary_start(code, base_end)
    return Dotted("".join(code[base_start:base_end].split()), text, start, True)


def primary_start(code: str, end: int) -> int:
    """Where the expression of names, dots, subscripts and calls begins that ends at ``end``."""
    at = end
    while at > 0:
        char = code[at - 1]
        if char in _CLOSING:
            opened = _matching(code, at - 1)
            if opened < 0:
                return at
            at = opened
        elif char == "_" or char == "." or char.isalnum():
            at -= 1
        else:
            break
    return at


def _matching(code: str, closing: int) -> int:
    """The bracket that a closing one closes, not too far back; -1 without."""
    depth = 0
    for at in range(closing, max(-1, closing - LOOK_AHEAD), -1):
        if code[at] in _CLOSING:
            depth += 1
        elif code[at] in _OPENING:
            depth -= 1
            if depth == 0:
                return at
    return -1


def dotted_at(code: str, offset: int) -> tuple[str, int, int] | None:
    """The dotted name at a place, up to the part that the place is in.

    Returns:
        The name, where it begins and where that part ends; None without a name.
    """
    start = end = offset
    while end < len(code) and (code[end] == "_" or code[end].isalnum()):
        end += 1
    while start > 0 and (code[start - 1] in "_." or code[start - 1].isalnum()):
        start -= 1
    written = code[start:end]
    name = written.lstrip(".")
    if not name or name.endswith(".") or name[0].isdigit():
        return None
    return name, start + len(written) - len(name), end
