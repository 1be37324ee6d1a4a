"""Suggestions in comments: ``# accelopt: target=trn2 x=bf16[128,512]`` and ``ignore[P10]``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from accelopt_lsp.nki.dtypes import Kind, all_dtypes
from accelopt_lsp.nki.targets import get_target, target_names
from accelopt_lsp.nki.writing.place import Place
from accelopt_lsp.nki.writing.scan import last_match
from accelopt_lsp.nki.writing.suggestions import Group, Suggestion

_DIRECTIVE = re.compile(r"#\s*accelopt:\s*(.*)\Z", re.DOTALL)
_START = re.compile(r"#\s*([a-z]*:?)\Z")
_IGNORE = re.compile(r"ignore(?:-file)?\s*\[(?:[^\]]*,)?\s*(\w*)\Z")
_VALUE = re.compile(r"([\w-]+)=([\w.]*)\Z")
_TUPLE_ITEM = re.compile(r"([\w-]+)=\((?:[^()]*,\s*)?([\w.]*)\Z")
_KEY = re.compile(r"(?:\A|\s)([\w-]*)\Z")
_GIVEN = re.compile(r"(?:\A|\s)([\w-]+)=")
_DEFINITION = re.compile(r"\bdef[ \t]+\w+[ \t]*\(([^)]*)\)?")
_BELOW = re.compile(r"\s*(?:@[^\n]*\s+)*def[ \t]+\w+[ \t]*\(([^)]*)\)?")
MARKER = "accelopt:"
VERSIONS = ("0.6", "0.5", "0.4", "0.3", "0.2")
"""Versions of the current dialect, the newest first."""
KEYS = {
    "target": ("hardware that the figures are for", f"target=${{1|{','.join(target_names())}|}}"),
    "reference": ("file with inputs and expected outputs", "reference=${1:reference.py}"),
    "grid": ("launch grid", "grid=${1:2}"),
    "nki-version": ("NKI version that the kernel is for", "nki-version=${1:0.6}"),
}


def directive_suggestions(place: Place, start: int) -> list[Suggestion]:
    """What can be written in the comment that begins at ``start``."""
    comment = place.text[start : place.offset]
    directive = _DIRECTIVE.match(comment)
    if directive is None:
        begun = _START.match(comment)
        if begun is None or not begun[1] or not MARKER.startswith(begun[1]):
            return []
        at = place.offset - len(begun[1])
        text = "arguments, target and version of a kernel, or rules to ignore"
        return [Suggestion(f"{MARKER} ", Group.DIRECTIVE, "1", at, text)]
    body = directive[1]
    ignored = _IGNORE.search(body)
    if ignored is not None:
        return list(_codes(place, ignored[1]))
    value = _VALUE.search(body) or _TUPLE_ITEM.search(body)
    if value is not None:
        return list(_values(value[1], value[2], place))
    key = _KEY.search(body)
    if key is None or body.lstrip().startswith("ignore["):
        return []
    return list(_keys(place, body, key[1]))


def _parameters(place: Place) -> list[str]:
    """Parameters of the kernel below the comment, else of the one around it."""
    found = _BELOW.match(place.code, place.offset)
    found = found or last_match(_DEFINITION, place.code, 0, place.offset)
    if found is None:
        return []
    names = [part.partition(":")[0].partition("=")[0].strip() for part in found[1].split(",")]
    return [name for name in names if name.isidentifier() and name != "self"]


def _codes(place: Place, word: str) -> Iterator[Suggestion]:
    start = place.offset - len(word)
    for code, title in place.codes:
        yield Suggestion(code, Group.DIRECTIVE, "1", start, title)


def _keys(place: Place, body: str, word: str) -> Iterator[Suggestion]:
    given = set(_GIVEN.findall(body))
    start = place.offset - len(word)
    for number, name in enumerate(_parameters(place)):
        if name not in given:
            yield Suggestion(
                f"{name}=",
                Group.KEYWORD,
                f"1{number:02}",
                start,
                "shape and type of an argument",
                snippet=f"{name}=${{1:bf16}}[${{2:128,512}}]",
            )
    for key, (text, snippet) in KEYS.items():
        if key not in given:
            yield Suggestion(f"{key}=", Group.DIRECTIVE, "2", start, text, snippet=snippet)
    if not given:
        for key, text in (
            ("ignore", "rules that are not reported on this line"),
            ("ignore-file", "rules that are not reported in this file"),
        ):
            snippet = f"{key}[${{1:CODE}}]"
            yield Suggestion(f"{key}[", Group.DIRECTIVE, "3", start, text, snippet=snippet)


def _values(key: str, word: str, place: Place) -> Iterator[Suggestion]:
    start = place.offset - len(word)
    if key == "target":
        for name in target_names():
            yield Suggestion(name, Group.VALUE, "1", start, get_target(name).title)
    elif key == "nki-version":
        for number, version in enumerate(VERSIONS):
            yield Suggestion(version, Group.VALUE, f"1{number}", start)
    elif key not in KEYS:
        for number, dtype in enumerate(d for d in all_dtypes() if d.kind is not Kind.PACKED):
            yield Suggestion(
                dtype.short,
                Group.TYPE,
                f"1{number:02}",
                start,
                dtype.name,
                snippet=f"{dtype.short}[${{1:128,512}}]",
            )
