"""The registry of what instructions compute, and how they read operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.numerics.operators import operate

Inputs = Mapping[str, Array]
Attributes = Mapping[str, Any]
Results = dict[str, Array]
Numeric = Callable[[Inputs, Attributes], Results]


NUMERICS: dict[str, Numeric] = {}
"""Instruction id to its function: operand arrays by role and attributes to result arrays."""


def computes(instruction: str) -> Callable[[Numeric], Numeric]:
    """Register the function of an instruction."""

    def register(function: Numeric) -> Numeric:
        NUMERICS[instruction] = function
        return function

    return register


def like(values: Array, data: Array) -> Array:
    """A tile of another shape with as many elements, or a [P, 1] vector, against ``data``."""
    if values.shape == data.shape:
        return values
    if values.size == data.size:
        return values.reshape(data.shape)
    return values.reshape(values.shape[0], *(1,) * (data.ndim - 1))


def operand_of(inputs: Inputs, attrs: Attributes, role: str, data: Array) -> Any:
    given = inputs.get(role)
    return attrs.get(role) if given is None else like(given, data)


def pair(op: str, a: Any, b: Any, reverse: bool, attrs: Attributes) -> Array:
    exact = attrs.get("engine") == "gpsimd"
    return operate(op, b, a, exact=exact) if reverse else operate(op, a, b, exact=exact)
