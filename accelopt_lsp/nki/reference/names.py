"""Every public name of NKI by canonical path: calls, types, memories, enums, tensor methods."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from attrs import field, frozen

from accelopt_lsp.nki.apis import APIS
from accelopt_lsp.nki.dialects import (
    LANGUAGE_CONSTANTS,
    Api,
    Dialect,
    unavailable,
    version_key,
)
from accelopt_lsp.nki.dtypes import Kind, all_dtypes
from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.instructions.operators import OPERATORS_OF_V4
from accelopt_lsp.nki.targets import Target, get_target

TENSOR = "tensor"
"""Under this path stand attributes and methods of any tensor."""
_LEGACY_TYPES = frozenset(
    "float32 tfloat32 bfloat16 float16 float8_e4m3 float8_e5m2 int8 int16 int32 uint8 uint16 "
    "uint32 bool_".split()
)
"""Data types that ``neuronxcc.nki.language`` names (SDK 2.26)."""
OLDEST = 2
"""The first NeuronCore generation that NKI runs on."""
_MICROSCALING = frozenset({"float8_e8m0fnu"})
"""Types without packed values that only microscaling products use."""


class NameKind(StrEnum):
    """What a name stands for."""

    MODULE = "module"
    FUNCTION = "function"
    TYPE = "type"
    DTYPE = "dtype"
    MEMORY = "memory"
    ENUM = "enum"
    MEMBER = "member"
    CONSTANT = "constant"
    METHOD = "method"
    ATTRIBUTE = "attribute"


@frozen(slots=True)
class Name:
    """One public name.

    Attributes:
        path: canonical: ``nl.tile_size.pmax``, ``tensor.reshape``.
        dialects: those that have it.
        calls: parameter list by dialect, for what can be called.
        api: its entry in the instruction table.
        generation: first NeuronCore that can use it.
        deprecated: what to use instead, for a name on its way out.
        deprecated_since: NKI version from which it is deprecated; None is every one.
    """

    path: str
    kind: NameKind
    summary: str
    dialects: frozenset[Dialect]
    calls: Mapping[Dialect, str] = field(factory=dict)
    api: Api | None = None
    generation: int = OLDEST
    deprecated: str | None = None
    deprecated_since: str | None = None

    @property
    def last(self) -> str:
        return self.path.rpartition(".")[2]

    def missing(self, dialect: Dialect, target: str, version: str | None = None) -> str:
        """Why code in that dialect, for that target and NKI version, cannot use it; else empty."""
        if self.api is not None:
            why = unavailable(self.api, dialect, version)
            if why:
                return why
        elif dialect not in self.dialects:
            other = next(iter(self.dialects))
            return f"{self.path} is not part of {dialect.package}, only of {other.package}"
        found = get_target(target)
        if found.generation < self.generation:
            return f"needs NeuronCore-v{self.generation}; {found.name} is v{found.generation}"
        return ""

    def is_deprecated(self, version: str | None = None) -> bool:
        """Whether another name took its place in that version; an unknown one is the newest."""
        if self.deprecated is None or self.deprecated_since is None or version is None:
            return self.deprecated is not None
        return version_key(version) >= version_key(self.deprecated_since)


BOTH = frozenset(Dialect)


@cache
def names() -> Mapping[str, Name]:
    """All names by path."""
    found = {name.path: name for name in (*_calls(), *_types(), *_others())}
    return dict(sorted(found.items()))


@cache
def children(path: str) -> tuple[Name, ...]:
    """The names right below a path: of a module, an enum, or of tensors."""
    depth = path.count(".") + 1
    return tuple(
        name
        for key, name in names().items()
        if key.startswith(f"{path}.") and key.count(".") == depth
    )


def find_name(path: str) -> Name | None:
    """The name with that canonical path, or None."""
    return names().get(path)


def _calls() -> Iterator[Name]:
    for api in APIS.values():
        instruction = INSTRUCTIONS.get(api.instruction or "")
        generation = OLDEST if instruction is None else instruction.since_generation
        if api.name.partition(".")[2] in OPERATORS_OF_V4:
            generation = 4
        yield Name(
            path=api.name,
            kind=NameKind.FUNCTION,
            summary=api.summary,
            dialects=frozenset(api.signatures),
            calls={dialect: s.text for dialect, s in api.signatures.items()},
            api=api,
            generation=generation,
        )


def _types() -> Iterator[Name]:
    for dtype in all_dtypes():
        packed = dtype.kind is Kind.PACKED
        bits = "four values in one element" if packed else dtype.kind.value
        yield Name(
            path=f"nl.{dtype.name}",
            kind=NameKind.DTYPE,
            summary=f"Data type: {bits}, {dtype.nbytes} byte{'s' * (dtype.nbytes > 1)}.",
            dialects=BOTH if dtype.name in _LEGACY_TYPES else frozenset({Dialect.CURRENT}),
            generation=4 if packed or dtype.name in _MICROSCALING else OLDEST,
        )


def _others() -> Iterator[Name]:
    text = files("accelopt_lsp.nki").joinpath("data/names.toml").read_text("utf-8")
    yield from _entries("", tomllib.loads(text))


def _entries(prefix: str, table: Mapping[str, Any]) -> Iterator[Name]:
    for key, row in table.items():
        path = f"{prefix}{key}"
        if "kind" in row:
            calls = {d: row[d.value] for d in Dialect if d.value in row}
            given = [Dialect(d) for d in row.get("dialects", calls or Dialect)]
            yield Name(
                path=path,
                kind=NameKind(row["kind"]),
                summary=row["summary"],
                dialects=frozenset(given),
                calls=calls,
                generation=row.get("generation", OLDEST),
                deprecated=row.get("deprecated"),
                deprecated_since=row.get("deprecated_since"),
            )
        yield from _entries(f"{path}.", {k: v for k, v in row.items() if isinstance(v, dict)})


def constant_value(path: str, target: Target) -> object | None:
    """Value of a constant of ``nki.language`` (``nl.tile_size.pmax``); None if it has none."""
    name = path.removeprefix("nl.")
    if not path.startswith("nl."):
        return None
    found = LANGUAGE_CONSTANTS.get(name)
    if found is not None or not name.startswith("tile_size."):
        return found
    return sized_constant(name.partition(".")[2], target)


def sized_constant(name: str, target: Target) -> int | None:
    """Value of ``nl.tile_size.NAME`` where it depends on the target."""
    usable = target.integer("sbuf_partition_bytes") - target.integer("sbuf_reserved_bytes")
    return {
        "sbuf_fmax_bytes": usable,
        "total_available_sbuf_size": usable,
        "sbuf_fmax": usable // 4,
        "sbuf_size_bytes": usable * target.integer("partitions"),
    }.get(name)
