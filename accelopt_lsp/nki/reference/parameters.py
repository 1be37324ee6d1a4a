"""Parameters of calls: what they mean, which values they take, and how a call is written.

The texts live in ``data/parameters.toml``.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from attrs import frozen

from accelopt_lsp.nki.dialects import Api
from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.instructions.base import Operand
from accelopt_lsp.nki.python_source import parse_python


class Passing(StrEnum):
    """How a call gives a parameter."""

    EITHER = "either"
    KEYWORD = "keyword"
    MANY = "many"
    REST = "rest"


@frozen(slots=True)
class Parameter:
    """One parameter of a call.

    Attributes:
        name: without stars.
        passing: by place or by name; ``many`` is ``*args``, ``rest`` is ``**kwargs``.
        default: as source text; None where it must be given.
    """

    name: str
    passing: Passing = Passing.EITHER
    default: str | None = None

    @property
    def text(self) -> str:
        """As it stands in a signature."""
        stars = {Passing.MANY: "*", Passing.REST: "**"}.get(self.passing, "")
        return stars + self.name + ("" if self.default is None else f"={self.default}")


@frozen(slots=True)
class ParameterText:
    """What is known of a parameter.

    Attributes:
        text: one sentence; empty if nothing is known.
        values: what it takes: ``dtypes``, ``memories``, ``engines``, ``booleans``, a list of
            operators, or an enum's canonical name; empty for anything.
        only: the names among these that are possible; empty for all.
    """

    text: str = ""
    values: str = ""
    only: tuple[str, ...] = ()


@cache
def _table() -> Mapping[str, Any]:
    text = files("accelopt_lsp.nki").joinpath("data/parameters.toml").read_text("utf-8")
    return tomllib.loads(text)


def about(call: str, parameter: str) -> ParameterText:
    """What is known of a parameter of a call (``nisa.activation``)."""
    row = _table().get(f"{call}.{parameter}") or _table().get(parameter)
    if row is None:
        return ParameterText()
    return ParameterText(row["text"], row.get("values", ""), tuple(row.get("only", ())))


@cache
def parameters_of(call: str, signature: str) -> tuple[Parameter, ...]:
    """Parameters of a signature text ``(dst, data, op='add')``, defaults as one writes them."""
    arguments = parse_python(f"def f{signature}: pass").body[0].args  # type: ignore[attr-defined]
    placed = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(placed) - len(arguments.defaults)) + list(arguments.defaults)
    found = [
        Parameter(a.arg, Passing.EITHER, _written(call, a.arg, d))
        for a, d in zip(placed, defaults, strict=True)
    ]
    if arguments.vararg is not None:
        found.append(Parameter(arguments.vararg.arg, Passing.MANY))
    found += [
        Parameter(a.arg, Passing.KEYWORD, _written(call, a.arg, d))
        for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg is not None:
        found.append(Parameter(arguments.kwarg.arg, Passing.REST))
    return tuple(found)


def _written(call: str, name: str, default: ast.expr | None) -> str | None:
    """A default as a kernel would write it: the table names enums and types by strings."""
    if default is None:
        return None
    if isinstance(default, ast.Constant) and isinstance(default.value, str) and default.value:
        values = about(call, name).values
        if values == "engines":
            return f"nisa.engine.{default.value}"
        if "." in values:
            return f"{values}.{default.value}"
        if values not in ("", "booleans"):
            return f"nl.{default.value}"
    return ast.unparse(default)


def signature_text(call: str, signature: str) -> str:
    """A signature as it is shown: ``(data, *, mask=None, engine=nisa.engine.unknown)``."""
    return "".join(piece for piece, _ in signature_pieces(call, signature))


def signature_pieces(call: str, signature: str) -> list[tuple[str, Parameter | None]]:
    """A shown signature in pieces; those that are a parameter come with it."""
    pieces: list[tuple[str, Parameter | None]] = [("(", None)]
    starred = False
    for number, parameter in enumerate(parameters_of(call, signature)):
        if number:
            pieces.append((", ", None))
        if parameter.passing is Passing.KEYWORD and not starred:
            pieces.append(("*, ", None))
        starred = starred or parameter.passing in (Passing.MANY, Passing.KEYWORD)
        pieces.append((parameter.text, parameter))
    pieces.append((")", None))
    return pieces


def operand_of(api: Api, parameter: str) -> Operand | None:
    """The operand of an API's instruction that a parameter gives."""
    instruction = INSTRUCTIONS.get(api.instruction or "")
    return None if instruction is None else instruction.operand(parameter)


def parameter_text(call: str, parameter: str, api: Api | None) -> str:
    """What a parameter is and in which memories it may live; empty if nothing is known."""
    text = about(call, parameter).text
    operand = operand_of(api, parameter) if api is not None else None
    if operand is None:
        return text
    places = " or ".join(sorted(b.upper() for b in operand.buffers))
    return f"{text} In {places}."
