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


def _abs_max(a: Array, b: Array) -> Array:
    """The signed operand of the larger magnitude; the second of equal ones (nl.abs_max)."""
    value: Array = np.where(np.greater(np.abs(a), np.abs(b)), a, b)
    return value


def _abs_min(a: Array, b: Array) -> Array:
    value: Array = np.where(np.less(np.abs(a), np.abs(b)), a, b)
    return value


BINARY: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "divide": np.divide,
    "power": np.power,
    "abs_max": _abs_max,
    "abs_min": _abs_min,
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


def _invert(a: Array, b: Array | None = None) -> Array:
    value: Array = np.invert(a)
    return value


BITWISE: dict[str, Callable[..., Array]] = {
    "invert": _invert,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}
"""Operators on bit patterns, given as 32-bit unsigned integers: the right shift is logical."""


def _along(function: np.ufunc) -> Callable[..., Array]:
    def reduce(values: Array, axis: Any) -> Array:
        value: Array = function.reduce(values, axis=axis)
        return value

    return reduce


def _reduced_last(values: Array, axis: Any) -> Array:
    """Reduced axes merged into one, which is the last."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    kept = [i for i in range(values.ndim) if i not in axes]
    return values.transpose(*kept, *axes).reshape(*(values.shape[i] for i in kept), -1)


def _differences(values: Array, axis: Any) -> Array:
    """The first element less all others."""
    value: Array = np.subtract.reduce(_reduced_last(values, axis), axis=-1)
    return value


def _by_magnitude(choose: Callable[..., Any]) -> Callable[..., Array]:
    """The signed element whose magnitude is chosen; the last of equal ones."""

    def reduce(values: Array, axis: Any) -> Array:
        flat = _reduced_last(values, axis)[..., ::-1]
        at = choose(np.abs(flat), axis=-1)
        value: Array = np.take_along_axis(flat, at[..., None], axis=-1)[..., 0]
        return value

    return reduce


REDUCERS: dict[str, Callable[..., Array]] = {
    "add": _along(np.add),
    "subtract": _differences,
    "multiply": _along(np.multiply),
    "maximum": _along(np.maximum),
    "minimum": _along(np.minimum),
    "abs_max": _by_magnitude(np.argmax),
    "abs_min": _by_magnitude(np.argmin),
    "bitwise_and": _along(np.bitwise_and),
    "bitwise_or": _along(np.bitwise_or),
    "bitwise_xor": _along(np.bitwise_xor),
    "logical_and": _along(np.logical_and),
    "logical_or": _along(np.logical_or),
    "logical_xor": _along(np.logical_xor),
}
"""Reductions by operator: (values, axis) to values."""

IDENTITIES: dict[str, np.float32] = {
    "add": np.float32(0),
    "subtract": np.float32(0),
    "multiply": np.float32(1),
    "maximum": np.float32(-np.inf),
    "minimum": np.float32(np.inf),
    "abs_max": np.float32(0),
    "abs_min": np.float32(np.inf),
}
"""What accumulators hold after a reset (nisa.tensor_scalar_reduce)."""


class UnknownOperator(ValueError):
    """An operator without numerics."""


def as_float(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return values if values.dtype == np.float32 else values.astype(np.float32)
    return np.float32(values)


_UNSIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
}


def bits_of(values: Any) -> Any:
    """Bit patterns of integers, widened with zeros to 32 bits; of float32 as stored."""
    if isinstance(values, np.ndarray):
        same: Any = np.ascontiguousarray(values).view(_UNSIGNED[values.dtype.itemsize])
        return same if same.dtype == np.uint32 else same.astype(np.uint32)
    return np.uint32(int(values) & 0xFFFFFFFF)


def stored(values: Array, destination: np.dtype[Any] | None) -> Array:
    """Bits or exact integers as what the destination's type keeps of them.

    Args:
        values: bit patterns (uint32), or exact integers (int64); others are left as they are.
        destination: carrier type of the destination.
    """
    if destination is None or destination.kind not in "iu":
        return values
    if values.dtype == np.uint32 or (values.dtype == np.int64 and destination.itemsize == 4):
        kept: Array = values.astype(_UNSIGNED[destination.itemsize]).view(destination)
        return kept
    return values


def operate(name: str, a: Any, b: Any, exact: bool = False, out: Array | None = None) -> Array:
    """``a name b``, in float32; bitwise operators on bits and ``exact`` ones on integers.

    Args:
        out: float32 array that may take the result.

    Raises:
        UnknownOperator: no such operator.
    """
    bitwise = BITWISE.get(name)
    if bitwise is not None:
        return bitwise(bits_of(a), None if b is None else bits_of(b))
    function = BINARY.get(name)
    if function is None:
        unary = UNARY.get(name)
        if unary is None:
            raise UnknownOperator(f"unknown operator {name!r}")
        return unary(as_float(a))
    if exact and integral(a) and integral(b):
        return function(np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64))
    if out is not None and isinstance(function, np.ufunc):
        function(as_float(a), as_float(b), out=out)
        return out
    return function(as_float(a), as_float(b))


def integral(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.dtype.kind in "iu"
    return isinstance(values, int | np.integer)


def row_reduce(op: str, values: Array) -> Array:
    """Reduce all but the first axis; the result has shape ``[P, 1]``."""
    rows = values.reshape(values.shape[0], -1)
    return reducer(op)(rows, axis=1).reshape(-1, 1)


def reducer(op: str) -> Callable[..., Array]:
    found = REDUCERS.get(op)
    if found is None:
        raise UnknownOperator(f"unknown reduction {op!r}")
    return found
