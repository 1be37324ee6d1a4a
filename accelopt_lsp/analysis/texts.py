"""Text of values: exact where it is known, else text that is known to be some text only."""

from __future__ import annotations

import re
from string import Formatter

from accelopt_lsp.analysis.affine import Affine, Undecided
from accelopt_lsp.analysis.machine import MAX_LENGTH, Machine
from accelopt_lsp.analysis.references import as_dtype
from accelopt_lsp.analysis.values import (
    EnumInt,
    EnumStr,
    Instance,
    ListValue,
    NamedTuple,
    Ref,
    Value,
)
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer


class SomeText(str):
    """Text with parts that are not known; it names things, and cannot be compared."""

    __slots__ = ()


def text_of(m: Machine, value: Value) -> str:
    """``str(value)``; a loop variable is written as such."""
    if value.__class__ is int or value.__class__ is str:
        return str(value)
    if isinstance(value, EnumInt):
        return str(int(value))
    if isinstance(value, EnumStr):
        return str.__str__(value)
    if isinstance(value, SomeText):
        return value
    if isinstance(value, str | bool | int | float | None):
        return str(value)
    if isinstance(value, Affine):
        return SomeText(value)
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Buffer):
        return value.value
    if isinstance(value, Ref) and as_dtype(value) is not None:
        found = as_dtype(value)
        return found.name if found is not None else ""
    if isinstance(value, Instance) and value.cls.kind == "enum":
        return f"{value.cls.name}.{value.fields['name']}"
    if isinstance(value, tuple) and not isinstance(value, NamedTuple):
        parts = [_part(m, v) for v in value]
        text = f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
        return SomeText(text) if any(isinstance(p, SomeText) for p in parts) else text
    return SomeText("?")


def _part(m: Machine, value: Value) -> str:
    if isinstance(value, str) and not isinstance(value, SomeText | EnumStr):
        return repr(value)
    return text_of(m, value)


_WIDE = re.compile(r"\d{5}")
"""A width or precision that makes text too long to be worth it."""


def joined(parts: list[str]) -> str:
    """Pieces of text, put together.

    Raises:
        Undecided: the text grows too long.
    """
    text = "".join(parts)
    if len(text) > MAX_LENGTH:
        raise Undecided("a text too long to analyze")
    return SomeText(text) if any(isinstance(p, SomeText) for p in parts) else text


def formatted(m: Machine, value: Value, spec: str, conversion: int) -> str:
    """A piece of an f-string."""
    if conversion == ord("r") and isinstance(value, str) and not isinstance(value, SomeText):
        return repr(value)
    if spec and isinstance(value, bool | int | float | str) and not isinstance(value, SomeText):
        try:
            return SomeText("?") if _WIDE.search(spec) else format(value, spec)
        except (ValueError, TypeError, OverflowError):
            return SomeText("?")
    return text_of(m, value)


def percent(text: str, given: Value) -> str:
    """``text % given``."""
    values = given if isinstance(given, tuple) else (given,)
    known = all(type(v) in (bool, int, float, str) for v in values)
    if not known or isinstance(text, SomeText) or _WIDE.search(text) or "*" in text:
        return SomeText("?")
    return text % tuple(values)


_METHODS = frozenset(
    "lower upper strip lstrip rstrip title capitalize swapcase split rsplit splitlines replace "
    "startswith endswith find rfind index count isdigit isalpha isidentifier isupper islower "
    "removeprefix removesuffix zfill partition rpartition".split()
)
_PADDING = frozenset({"ljust", "rjust", "center", "expandtabs"})


def text_method(
    m: Machine, owner: str, name: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """A method of a text."""
    if name == "join" and args:
        from accelopt_lsp.analysis.sequences import items_of

        items = items_of(args[0])
        m.charge(64 + 4 * len(items or ()))
        if items is None or not all(isinstance(i, str) for i in items):
            return SomeText("?")
        return joined(
            [p for n, item in enumerate(items) for p in ((owner, item) if n else (item,))]
        )
    if name == "format":
        known = all(type(v) in (bool, int, float, str) for v in (*args, *kwargs.values()))
        simple = not isinstance(owner, SomeText) and not _WIDE.search(owner)
        nested = any("{" in (spec or "") for _, _, spec, _ in Formatter().parse(owner))
        if not known or not simple or nested:
            return SomeText("?")
        return str.__str__(owner).format(*args, **kwargs)
    plain = all(isinstance(a, str | int | None) and not isinstance(a, SomeText) for a in args)
    tuples = all(isinstance(a, tuple) and all(isinstance(t, str) for t in a) for a in args)
    if isinstance(owner, SomeText) or kwargs or not (plain or tuples):
        if name in ("lower", "upper", "strip", "replace", "title"):
            return SomeText("?")
        raise Undecided("text that is not known")
    if name in _METHODS or (name in _PADDING and len(owner) < MAX_LENGTH and args[:1] < [1000]):
        found = getattr(str.__str__(owner), name)(*args)
        return ListValue(list(found), tuple(m.loops)) if isinstance(found, list) else found
    return SomeText("?") if name in _PADDING else _unknown(name)


def _unknown(name: str) -> Value:
    from accelopt_lsp.analysis.values import Unknown

    return Unknown(f"str.{name} is not analyzed")
