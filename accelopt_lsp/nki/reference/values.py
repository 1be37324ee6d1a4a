"""Which values a parameter takes, as canonical names."""

from __future__ import annotations

from collections.abc import Mapping

from accelopt_lsp.nki.dialects import MEMORIES, Dialect
from accelopt_lsp.nki.dtypes import all_dtypes
from accelopt_lsp.nki.instructions import INSTRUCTIONS, Instruction
from accelopt_lsp.nki.instructions.operators import (
    ACCUMULATIONS,
    ACTIVATION_FUNCTIONS,
    BINARY_OPERATORS,
    COMPARISONS,
    PARTITION_REDUCTIONS,
    REDUCTION_OPERATORS,
    UNARY_OPERATORS,
)
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.reference.names import Name, children, find_name
from accelopt_lsp.nki.reference.parameters import about

_OPERATORS: Mapping[str, frozenset[str]] = {
    "activations": ACTIVATION_FUNCTIONS,
    "binary": BINARY_OPERATORS,
    "comparisons": COMPARISONS,
    "reductions": REDUCTION_OPERATORS,
    "accumulations": ACCUMULATIONS,
    "partition_reductions": PARTITION_REDUCTIONS,
}
_TAKES_UNARY = frozenset({"nisa.tensor_scalar"})
"""Calls whose operators may also be unary."""


def values_of(call: Name, parameter: str, dialect: Dialect) -> tuple[str, ...]:
    """Canonical names that a parameter of a call takes in a dialect; empty for anything.

    Booleans come as ``True`` and ``False``.
    """
    known = about(call.path, parameter)
    if known.values == "":
        return ()
    if known.values == "booleans":
        return ("True", "False")
    if known.values == "dtypes":
        found = [f"nl.{dtype.name}" for dtype in all_dtypes()]
    elif known.values == "memories":
        found = [f"nl.{memory}" for memory in MEMORIES]
    elif known.values == "engines":
        found = _engines(call)
    elif known.values in _OPERATORS:
        operators = _OPERATORS[known.values]
        if call.path in _TAKES_UNARY:
            operators = operators | UNARY_OPERATORS
        found = [f"nl.{operator}" for operator in sorted(operators)]
    else:
        found = [name.path for name in children(known.values)]
    names = [name for path in found if (name := find_name(path)) is not None]
    return tuple(
        name.path
        for name in names
        if dialect in name.dialects and (not known.only or name.last in known.only)
    )


def _instruction(call: Name) -> Instruction | None:
    return INSTRUCTIONS.get((call.api.instruction if call.api is not None else None) or "")


def _engines(call: Name) -> list[str]:
    """Engines that can run a call, with the choice left to the compiler."""
    instruction = _instruction(call)
    able = tuple(Engine) if instruction is None else instruction.engines
    if Engine.DMA in able:
        # Those that trigger a transfer, not those that move it.
        able = (Engine.SYNC, Engine.SCALAR)
    return [f"nisa.engine.{engine}" for engine in able] + ["nisa.engine.unknown"]
