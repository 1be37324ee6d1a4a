"""Long statements over several lines, as formatters lay them out."""

from __future__ import annotations

LIMIT = 100
_OPEN, _CLOSE = "([{", ")]}"


def laid_out(indent: str, text: str, unit: str, newline: str) -> str:
    """One statement: on one line, or with what its outer bracket holds on lines of its own."""
    return "".join(f"{line}{newline}" for line in _lines(indent, text, "", unit))


def _lines(indent: str, text: str, tail: str, unit: str) -> list[str]:
    if len(indent) + len(text) + len(tail) <= LIMIT:
        return [f"{indent}{text}{tail}"]
    found = _bracket(text)
    if found is None:
        return [f"{indent}{text}{tail}"]
    start, end = found
    head, inner, rest = text[: start + 1], text[start + 1 : end], text[end:]
    parts = _parts(inner)
    inside = indent + unit
    if " for " in inner and len(parts) == 1 or _has_for(inner):
        pieces = _comprehension(inner)
        body: list[str] = []
        for piece in pieces:
            body += _lines(inside, piece, "", unit)
        return [f"{indent}{head}", *body, f"{indent}{rest}{tail}"]
    joined = ", ".join(parts)
    if len(inside) + len(joined) <= LIMIT and not inner.rstrip().endswith(","):
        return [f"{indent}{head}", f"{inside}{joined}", f"{indent}{rest}{tail}"]
    body = []
    for part in parts:
        body += _lines(inside, part, ",", unit)
    return [f"{indent}{head}", *body, f"{indent}{rest}{tail}"]


def _bracket(text: str) -> tuple[int, int] | None:
    """The last outermost pair of brackets with something to break in it."""
    best: tuple[int, int] | None = None
    depth, start = 0, 0
    quote = ""
    for position, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in _OPEN:
            if depth == 0:
                start = position
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if depth == 0 and position - start > 1:
                best = (start, position)
    return best


def _split(text: str, at: str) -> list[str]:
    """Pieces between separators outside brackets and strings."""
    pieces: list[str] = []
    depth, last, position = 0, 0, 0
    quote = ""
    while position < len(text):
        char = text[position]
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
        elif depth == 0 and text.startswith(at, position):
            pieces.append(text[last:position])
            position += len(at)
            last = position
            continue
        position += 1
    pieces.append(text[last:])
    return pieces


def _parts(text: str) -> list[str]:
    return [part.strip() for part in _split(text, ",") if part.strip()]


def _has_for(text: str) -> bool:
    return len(_split(text, " for ")) > 1


def _comprehension(text: str) -> list[str]:
    first, *loops = _split(text, " for ")
    return [first.strip(), *(f"for {loop.strip()}" for loop in loops)]
