"""Operators of two operands and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.numerics.functions import UNARY


def _truth(function: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        return function(a, b).astype(np.float32)

    return apply


def _logical(function: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        return function(np.not_equal(a, 0), np.not_equal(b, 0)).astype(np.float32)

    return apply


BINARY: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "divide": np.divide,
    "power": np.power,
    "equal": _truth(np.equal),
    "not_equal": _truth(np.not_equal),
    "greater": _truth(np.greater),
    "greater_equal": _truth(np.greater_equal),
    "less": _truth(np.less),
    "less_equal": _truth(np.less_equal),
    "logical_and": _logical(np.logical_and),
    "logical_or": _logical(np.logical_or),
    "logical_xor": _logical(np.logical_xor),
}


BITWISE: dict[str, Callable[..., Array]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}


REDUCERS: dict[str, np.ufunc] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


class UnknownOperator(ValueError):
    """An operator without numerics."""


def as_float(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return values if values.dtype == np.float32 else values.astype(np.float32)
    return np.float32(values)


def operate(name: str, a: Any, b: Any, *, exact: bool = False) -> Array:
    """``a name b``, in float32; bitwise operators and ``exact`` ones on integers.

    Raises:
        UnknownOperator: no such operator.
    """
    bitwise = BITWISE.get(name)
    if bitwise is not None:
        return bitwise(np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64))
    function = BINARY.get(name)
    if function is None:
        unary = UNARY.get(name)
        if unary is None:
            raise UnknownOperator(f"unknown operator {name!r}")
        return unary(as_float(a))
    if exact and integral(a) and integral(b):
        return function(np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64))
    return function(as_float(a), as_float(b))


def integral(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.dtype.kind in "iu"
    return isinstance(values, int | np.integer)


def row_reduce(op: str, values: Array) -> Array:
    rows = values.reshape(values.shape[0], -1)
    value: Array = reducer(op).reduce(rows, axis=1)
    return value.reshape(-1, 1)


def reducer(op: str) -> np.ufunc:
    found = REDUCERS.get(op)
    if found is None:
        raise UnknownOperator(f"unknown reduction {op!r}")
    return found
