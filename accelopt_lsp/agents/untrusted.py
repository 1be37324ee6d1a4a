"""Experiences from somebody else's file: untrusted text, limited and parsed strictly."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from typing import Any

from attrs import asdict, evolve

from accelopt_lsp.agents.codec import CodecError, experience_from_json
from accelopt_lsp.agents.roles import Experience

MAX_LINE_BYTES = 1 << 20
_TEXT_LIMITS = {"title": 300, "text": 8_000, "before": 8_000, "after": 8_000}
_CODE_LIMIT = 256_000
_TAG_LIMIT = 200
_MOST_TAGS = 200
_MOST_COUNT = 1 << 31
_LAST_YEAR = 253_402_300_799.0
"""31 December 9999, the latest time that clocks can show."""
_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_FORBIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that steer terminals, or change how a text around them looks."""
_ALLOWED = frozenset("\n\t\r\u200c\u200d\ufeff")


def parse_untrusted(line: str) -> Experience:
    """An experience from one JSON line of somebody else.

    It is neither trusted nor pinned, and its wins and losses are what was reported, not what
    happened here.

    Raises:
        CodecError: too long, no JSON, unknown fields, wrong types.
    """
    if len(line.encode("utf-8", "surrogatepass")) > MAX_LINE_BYTES:
        raise CodecError(f"longer than {MAX_LINE_BYTES} bytes")
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {error}") from error
    experience = experience_from_json(data)
    if not _ID.fullmatch(experience.id):
        raise CodecError("id must be 1 to 64 letters, digits, dots, colons and dashes")
    for name, limit in _TEXT_LIMITS.items():
        _check_text(name, getattr(experience, name), limit)
    if not experience.title.strip():
        raise CodecError("title must not be empty")
    if "\n" in experience.title:
        raise CodecError("title must be one line")
    for name in ("slow", "fast"):
        _check_text(name, getattr(experience, name) or "", _CODE_LIMIT)
    for name, value in (*asdict(experience.tags).items(), *asdict(experience.origin).items()):
        _check_tag(name, value)
    _check_tag("rewrite", experience.rewrite)
    for name in ("wins", "losses", "reported_wins", "reported_losses"):
        if not 0 <= getattr(experience, name) < _MOST_COUNT:
            raise CodecError(f"{name} must be a count")
    return evolve(
        experience,
        trusted=False,
        pinned=False,
        wins=0,
        losses=0,
        reported_wins=experience.wins,
        reported_losses=experience.losses,
    )


def _check_tag(name: str, value: Any) -> None:
    if isinstance(value, tuple):
        if len(value) > _MOST_TAGS:
            raise CodecError(f"more than {_MOST_TAGS} {name}")
        for item in value:
            _check_tag(name, item)
    elif isinstance(value, float):
        if not (math.isfinite(value) and 0 <= value <= _LAST_YEAR):
            raise CodecError(f"{name} must be a time in seconds")
    else:
        _check_text(name, value or "", _TAG_LIMIT)


def _check_text(name: str, value: str, limit: int) -> None:
    if len(value) > limit:
        raise CodecError(f"{name} is longer than {limit} characters")
    for char in value:
        if char not in _ALLOWED and unicodedata.category(char) in _FORBIDDEN:
            what = "valid Unicode" if unicodedata.category(char) == "Cs" else "plain text"
            raise CodecError(f"{name} is not {what}: it has the control character {char!r}")
