"""JSON as models write it: with comments, trailing commas, single quotes, and cut off midway."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

_OPENING = re.compile(r"[{\[]")
_PIECE = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|#[^\n]*|,(?=\s*[\]}])', re.DOTALL)
_PAIRS = {"{": "}", "[": "]"}
MAX_TRIES = 60
MAX_LITERAL = 100_000


def json_readings(text: str) -> Iterator[list[Any]]:
    """Ways to read a text: each gives its objects and arrays in their order, outermost first.

    What cannot be read as a whole is searched for parts that can, so one way may find more
    than another.
    """
    repaired = _PIECE.sub(lambda m: m[0] if m[0][0] == '"' else "", text)
    found = False
    for version in dict.fromkeys((text, repaired)):
        if values := list(_decoded(version)):
            found = True
            yield values
    if not found and (values := list(_literals(text))):
        yield values


def _decoded(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(strict=False)
    position = tries = 0
    while tries < MAX_TRIES and (opening := _OPENING.search(text, position)) is not None:
        tries += 1
        try:
            value, position = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            position = opening.start() + 1
            continue
        yield value


def _literals(text: str) -> Iterator[Any]:
    """What reads as Python's literals: single quotes, ``True``, ``None``."""
    position = tries = 0
    while tries < MAX_TRIES and (opening := _OPENING.search(text, position)) is not None:
        tries += 1
        end = text.rfind(_PAIRS[opening[0]])
        piece = text[opening.start() : end + 1]
        if len(piece) > MAX_LITERAL:
            return
        try:
            value = ast.literal_eval(piece)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            position = opening.start() + 1
            continue
        yield value
        position = end + 1
