"""What a kernel is called with: one syntax for command line, directives and editors.

SPEC is ``DTYPE[d0,d1,...]`` with an optional ``~DISTRIBUTION``, ``@FILE.npy``, a Python
literal, ``(SPEC, ...)``, ``[SPEC, ...]``, ``{KEY: SPEC, ...}``, a dotted name (enum member or data
type), or an object of the kernel's project: ``Config(tile=128, x=bf16[128,512])``.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Mapping
from math import inf, isfinite

from attrs import field, frozen

from accelopt_lsp.nki.dtypes import DType, find_dtype, get_dtype
from accelopt_lsp.nki.python_source import parse_expression


class SpecError(ValueError):
    """A SPEC that cannot be read. The message says what is expected."""


@frozen(slots=True)
class Distribution:
    """How a tensor is filled: ``normal``, ``uniform``, ``ones`` or ``zeros``.

    ``normal`` has mean and standard deviation; ``uniform`` is over [0, 1).
    """

    kind: str = "normal"
    mean: float = 0.0
    deviation: float = 1.0

    @property
    def constant(self) -> float | None:
        """The one value that all elements have; None for random ones."""
        if self.kind == "normal":
            return self.mean if self.deviation == 0 else None
        return {"ones": 1.0, "zeros": 0.0}.get(self.kind)

    def __str__(self) -> str:
        if self.kind == "normal" and (self.mean, self.deviation) != (0.0, 1.0):
            return f"N({_shortest(self.mean)},{_shortest(self.deviation)})"
        return self.kind


def _shortest(number: float) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(number)).removesuffix(".0")


@frozen(slots=True)
class TensorSpec:
    """A tensor to be generated. Shape in elements."""

    shape: tuple[int, ...]
    dtype: DType
    distribution: Distribution = Distribution()

    def __str__(self) -> str:
        text = f"{self.dtype.short}[{','.join(map(str, self.shape))}]"
        return text if self.distribution == Distribution() else f"{text}~{self.distribution}"


@frozen(slots=True)
class FileSpec:
    """A tensor read from a ``.npy`` file."""

    path: str

    def __str__(self) -> str:
        return f"@{self.path}"


@frozen(slots=True)
class LiteralSpec:
    """A number, string, bool or None."""

    value: int | float | str | bool | None

    def __str__(self) -> str:
        return repr(self.value)


@frozen(slots=True)
class NameSpec:
    """An enum member or other module attribute, by dotted name."""

    name: str

    def __str__(self) -> str:
        return self.name


@frozen(slots=True)
class TupleSpec:
    items: tuple[ArgumentSpec, ...]

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.items))
        return f"({inner},)" if len(self.items) == 1 else f"({inner})"


@frozen(slots=True)
class ListSpec:
    items: tuple[ArgumentSpec, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@frozen(slots=True)
class DictSpec:
    """A dictionary: keys are literals."""

    items: tuple[tuple[LiteralSpec, ArgumentSpec], ...]

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}: {value}" for key, value in self.items) + "}"


@frozen(slots=True)
class ObjectSpec:
    """What calling a class or function of the kernel's project gives.

    Attributes:
        name: its name in the kernel's file, or its dotted path.
        args: positional arguments.
        fields: keyword arguments, in order.
    """

    name: str
    args: tuple[ArgumentSpec, ...] = ()
    fields: tuple[tuple[str, ArgumentSpec], ...] = ()

    def __str__(self) -> str:
        parts = [*map(str, self.args), *(f"{name}={value}" for name, value in self.fields)]
        return f"{self.name}({', '.join(parts)})"


ArgumentSpec = (
    TensorSpec | FileSpec | LiteralSpec | NameSpec | TupleSpec | ListSpec | DictSpec | ObjectSpec
)


def spec_leaves(spec: ArgumentSpec) -> Iterator[ArgumentSpec]:
    """Tensors, files, literals and names in a SPEC, in the order in which they are written."""
    if isinstance(spec, TupleSpec | ListSpec):
        parts: tuple[ArgumentSpec, ...] = spec.items
    elif isinstance(spec, DictSpec):
        parts = tuple(value for _, value in spec.items)
    elif isinstance(spec, ObjectSpec):
        parts = (*spec.args, *(value for _, value in spec.fields))
    else:
        yield spec
        return
    for part in parts:
        yield from spec_leaves(part)


_TENSOR = re.compile(r"^([A-Za-z_][\w.]*)\s*\[([^\]]*)\]\s*(?:~\s*(.+))?$")
_NORMAL = re.compile(r"^N\(\s*([^,\s]+)\s*,\s*([^)\s]+)\s*\)$")
_NAME = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")
_CALL = re.compile(r"^([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*\(")
_FIELD = re.compile(r"^([A-Za-z_]\w*)\s*=(?!=)")
MAX_NESTING = 50
_CLOSING = {"(": ")", "[": "]", "{": "}"}
EXPECTED = (
    "expected DTYPE[d0,d1,...] such as bf16[128,512], optionally with ~normal, ~uniform, ~ones, "
    "~zeros or ~N(mean,std); @FILE.npy; a Python literal; (SPEC, ...), [SPEC, ...] or "
    "{KEY: SPEC, ...}; or an object such as Config(tile=128, x=bf16[128,512])"
)


def parse_spec(text: str) -> ArgumentSpec:
    """Read one SPEC.

    Raises:
        SpecError: not a SPEC.
    """
    text = text.strip()
    if not text:
        raise SpecError(f"empty argument; {EXPECTED}")
    if text.startswith("@"):
        return FileSpec(text[1:].strip())
    tensor = _TENSOR.match(text)
    if tensor:
        return _tensor(*tensor.groups())
    if text in ("inf", "-inf", "nan"):
        return LiteralSpec(float(text))
    call = _CALL.match(text)
    if call or text[0] in _CLOSING:
        return _object(call[1], text[call.end() - 1 :]) if call else _structure(text)
    try:
        value = ast.literal_eval(parse_expression(text.lstrip(" \t")))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        if _NAME.match(text) or find_dtype(text):
            return NameSpec(text)
        raise SpecError(f"cannot read {text!r}; {EXPECTED}") from None
    if isinstance(value, int | float | str | bool | None):
        return LiteralSpec(value)
    raise SpecError(f"cannot use {text!r} as an argument; {EXPECTED}")


def _structure(text: str) -> ArgumentSpec:
    """A tuple, a list or a dictionary."""
    parts = split_top_level(_inside(text))
    if text[0] == "{":
        return DictSpec(tuple(map(_item, parts)))
    items = tuple(map(parse_spec, parts))
    return ListSpec(items) if text[0] == "[" else TupleSpec(items)


def _inside(text: str) -> str:
    """What stands between a bracket and the one that closes it, which must end the text."""
    end = _end_of_group(text)
    if end is None:
        raise SpecError(
            f"unbalanced {'parentheses' if text[0] == '(' else 'brackets'} in {_short(text)}"
        )
    if text[end + 1 :].strip():
        raise SpecError(f"cannot read {text[end + 1 :]!r} behind {_short(text[: end + 1])}")
    return text[1:end]


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")


def _end_of_group(text: str) -> int | None:
    """Where the bracket closes with which a text begins."""
    open_: list[str] = []
    quote, escaped = "", False
    for position, char in enumerate(text):
        if quote:
            closes = char == quote and not escaped
            escaped = char == "\\" and not escaped
            quote = "" if closes else quote
        elif char in "'\"":
            quote = char
        elif char in _CLOSING:
            open_.append(_CLOSING[char])
            if len(open_) > MAX_NESTING:
                raise SpecError(f"more than {MAX_NESTING} brackets are open: nested too deeply")
        elif char in ")]}":
            if open_.pop() != char:
                return None
            if not open_:
                return position
    return None


def _item(text: str) -> tuple[LiteralSpec, ArgumentSpec]:
    """``KEY: SPEC``."""
    key, *value = split_top_level(text, ":")
    if not value:
        raise SpecError(f"expected KEY: SPEC in a dictionary, got {_short(text)}")
    found = parse_spec(key)
    if not isinstance(found, LiteralSpec):
        raise SpecError(f"keys of a dictionary are literals such as 'tile', got {_short(key)}")
    return found, parse_spec(":".join(value))


def _object(name: str, group: str) -> ObjectSpec:
    """``NAME(SPEC, ..., FIELD=SPEC, ...)``."""
    if any(keyword.iskeyword(part) for part in name.split(".")):
        raise SpecError(f"cannot read {name!r} as a class; {EXPECTED}")
    args: list[ArgumentSpec] = []
    fields: dict[str, ArgumentSpec] = {}
    for part in split_top_level(_inside(group)):
        named = _FIELD.match(part)
        if named is None:
            if fields:
                raise SpecError(
                    f"{name}: {_short(part)} stands behind a named argument; give it a name too"
                )
            args.append(parse_spec(part))
        elif named[1] in fields:
            raise SpecError(f"{name} is given {named[1]} twice; leave one out")
        else:
            fields[named[1]] = parse_spec(part[named.end() :])
    return ObjectSpec(name, tuple(args), tuple(fields.items()))


def _tensor(dtype: str, sizes: str, distribution: str | None) -> TensorSpec:
    try:
        element = get_dtype(dtype)
    except ValueError as error:
        raise SpecError(str(error)) from None
    try:
        shape = tuple(int(s) for s in sizes.split(",") if s.strip())
    except ValueError:
        raise SpecError(f"sizes must be integers, got [{sizes}]") from None
    if any(s <= 0 for s in shape):
        raise SpecError(f"sizes must be positive, got [{sizes}]")
    return TensorSpec(shape, element, parse_distribution(distribution))


def parse_distribution(text: str | None) -> Distribution:
    """Read ``normal``, ``uniform``, ``ones``, ``zeros`` or ``N(mean,std)``.

    Raises:
        SpecError: none of these.
    """
    if text is None or text.strip() == "normal":
        return Distribution()
    text = text.strip()
    if text in ("uniform", "ones", "zeros"):
        return Distribution(text)
    normal = _NORMAL.match(text)
    if normal:
        try:
            mean, deviation = float(normal[1]), float(normal[2])
        except ValueError:
            mean = deviation = inf
        if isfinite(mean) and isfinite(deviation) and deviation >= 0:
            return Distribution("normal", mean, deviation)
    raise SpecError(f"unknown distribution {text!r}; {EXPECTED}")


def split_top_level(text: str, separator: str = ",") -> list[str]:
    """Split at separators outside brackets and quotes; empty parts are dropped."""
    parts, depth, quote, current, escaped = [], 0, "", "", False
    for char in text:
        if quote:
            closes = char == quote and not escaped
            escaped = char == "\\" and not escaped
            quote = "" if closes else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == separator and depth == 0:
            parts.append(current)
            current = ""
            continue
        current += char
    parts.append(current)
    return [p.strip() for p in parts if p.strip()]


@frozen(slots=True)
class KernelArguments:
    """Everything a run of a kernel needs besides its source.

    Attributes:
        values: parameter name to SPEC; parameters with defaults may be missing.
        target: target name, if someone gave one.
        reference: path of a reference file, if there is one.
        grid: SPMD launch grid; empty for none.
        origins: parameter name to where its SPEC came from, for people.
        missing: parameters without default and without SPEC.
        nki_version: NKI version that the file names, such as ``0.6``.
    """

    values: Mapping[str, ArgumentSpec] = field(factory=dict)
    target: str | None = None
    reference: str | None = None
    grid: tuple[int, ...] = ()
    origins: Mapping[str, str] = field(factory=dict)
    missing: tuple[str, ...] = ()
    nki_version: str | None = None

    @property
    def complete(self) -> bool:
        return not self.missing
