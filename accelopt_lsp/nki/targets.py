"""Trainium generations as data: every constant has a unit and a source.

The values live in ``data/targets.toml``; code reads them through :class:`Target`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from attrs import evolve, frozen


@frozen(slots=True)
class Constant:
    """One machine constant.

    Attributes:
        value: the figure, in ``unit``.
        unit: unit of ``value``.
        source: where it comes from (documented page, derivation or calibration set).
        status: ``documented``, ``derived`` or ``calibrated``.
    """

    value: float
    unit: str
    source: str
    status: str


@frozen(slots=True)
class Target:
    """One NeuronCore of a Trainium generation."""

    name: str
    title: str
    generation: int
    constants: dict[str, Constant]

    def __getitem__(self, key: str) -> float:
        """Value of a constant.

        Raises:
            KeyError: the generation has no such constant on record.
        """
        return self.constants[key].value

    def get(self, key: str) -> float | None:
        """Value of a constant, or None where no source gives it."""
        found = self.constants.get(key)
        return None if found is None else found.value

    def integer(self, key: str) -> int:
        return int(self.constants[key].value)

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        # Targets of one name may differ in constants: calibration tries others.
        return (
            isinstance(other, Target)
            and other.name == self.name
            and other.constants == self.constants
        )

    def with_constants(self, values: Mapping[str, float]) -> Target:
        """The same generation with other values for some of its constants.

        Raises:
            KeyError: the generation has no such constant on record.
        """
        changed = {k: evolve(self.constants[k], value=v) for k, v in values.items()}
        return evolve(self, constants={**self.constants, **changed})


_ALIASES = {
    "gen2": "trn1",
    "trn1n": "trn1",
    "inf2": "trn1",
    "gen3": "trn2",
    "gen4": "trn3",
}


@cache
def _table() -> dict[str, Any]:
    text = files("accelopt_lsp.nki").joinpath("data/targets.toml").read_text("utf-8")
    return tomllib.loads(text)


@cache
def target_names() -> tuple[str, ...]:
    return tuple(_table())


@cache
def get_target(name: str) -> Target:
    """The target called ``name`` (``trn1``, ``trn2``, ``trn3`` or an alias such as ``gen2``).

    Raises:
        ValueError: no such target.
    """
    key = _ALIASES.get(name.lower(), name.lower())
    row = _table().get(key)
    if row is None:
        raise ValueError(f"unknown target {name!r}; known: {', '.join(target_names())}")
    constants = {k: Constant(**v) for k, v in row.items() if isinstance(v, dict)}
    return Target(key, row["title"], row["generation"], constants)
