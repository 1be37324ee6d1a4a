"""What a kernel is called with: one syntax for command line, directives and editors.

SPEC is ``DTYPE[d0,d1,...]`` with an optional ``~DISTRIBUTION``, ``@FILE.npy``, a Python
literal, ``(SPEC, ...)``, or a dotted name (enum member or data type).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from math import inf, isfinite

from attrs import field, frozen

from accelopt_lsp.nki.dtypes import DType, find_dtype, get_dtype


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


ArgumentSpec = TensorSpec | FileSpec | LiteralSpec | NameSpec | TupleSpec

_TENSOR = re.compile(r"^([A-Za-z_][\w.]*)\s*\[([^\]]*)\]\s*(?:~\s*(.+))?$")
_NORMAL = re.compile(r"^N\(\s*([^,\s]+)\s*,\s*([^)\s]+)\s*\)$")
_NAME = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")
EXPECTED = (
    "expected DTYPE[d0,d1,...] such as bf16[128,512], optionally with ~normal, ~uniform, ~ones, "
    "~zeros or ~N(mean,std); @FILE.npy; a Python literal; or (SPEC, ...)"
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
    if tensor and not text.startswith("("):
        return _tensor(*tensor.groups())
    if text.startswith("("):
        return _tuple(text)
    if text in ("inf", "-inf", "nan"):
        return LiteralSpec(float(text))
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        if _NAME.match(text) or find_dtype(text):
            return NameSpec(text)
        raise SpecError(f"cannot read {text!r}; {EXPECTED}") from None
    if isinstance(value, int | float | str | bool | None):
        return LiteralSpec(value)
    raise SpecError(f"cannot use {text!r} as an argument; {EXPECTED}")


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


def _tuple(text: str) -> TupleSpec:
    if not text.endswith(")"):
        raise SpecError(f"unbalanced parentheses in {text!r}")
    try:
        return TupleSpec(tuple(parse_spec(part) for part in split_top_level(text[1:-1])))
    except RecursionError:
        raise SpecError("tuples are nested too deeply") from None


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
