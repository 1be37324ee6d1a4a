"""Activation functions, in float32.

Where float32 arithmetic would lose digits (differences of nearly equal numbers, the error
function), they are computed in float64; results are as accurate as float32 can say.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import erf, erfc, exp, pi, sqrt

import numpy as np

from accelopt_lsp.profiler.simulator.elements import Array

_CELLS = 512
"""Cells of an interpolation table per unit; cubic pieces are then good to 1e-12, relatively."""


class _Table:
    """A smooth function by its values and slopes on a grid, cubic in between."""

    def __init__(
        self,
        function: Callable[[float], float],
        slope: Callable[[float], float],
        low: float,
        high: float,
    ) -> None:
        self.low, self.high = low, high
        count = int((high - low) * _CELLS) + 1
        points = [low + i / _CELLS for i in range(count)]
        self._values = np.array([function(p) for p in points])
        self._slopes = np.array([slope(p) / _CELLS for p in points])
        self._last = count - 2

    def __call__(self, x: Array) -> Array:
        """Values at ``x`` (float64), which is limited to the table's range first."""
        place = (np.minimum(np.maximum(x, self.low), self.high) - self.low) * _CELLS
        # Not a number goes to the first cell; it stays what it is through ``t``.
        cell = np.nan_to_num(place).astype(np.intp)
        np.minimum(cell, self._last, out=cell)
        t = place - cell
        left, right = self._values[cell], self._values[cell + 1]
        first, second = self._slopes[cell], self._slopes[cell + 1]
        rise = right - left
        value: Array = left + t * (
            first + t * (3 * rise - 2 * first - second + t * (first + second - 2 * rise))
        )
        return value


def _bell(x: float) -> float:
    return 2 / sqrt(pi) * exp(-x * x)


@cache
def _erf_table() -> _Table:
    return _Table(erf, _bell, 0.0, 6.0)


@cache
def _erfc_table() -> _Table:
    return _Table(erfc, lambda x: -_bell(x), -6.0, 14.0)


def _erf(x: Array) -> Array:
    wide = x.astype(np.float64)
    value: Array = np.copysign(_erf_table()(np.abs(wide)), wide)
    return value.astype(np.float32)


def _wide_distribution(x: Array) -> Array:
    """The normal distribution function of float64 values."""
    value: Array = 0.5 * _erfc_table()(x * -0.7071067811865476)
    return value


def _gelu(x: Array) -> Array:
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        value = wide * _wide_distribution(wide)
    return _limit(value, x)


def _gelu_dx(x: Array) -> Array:
    wide = x.astype(np.float64)
    density = np.exp(-0.5 * wide * wide) * 0.3989422804014327
    with np.errstate(invalid="ignore"):
        value = _wide_distribution(wide) + wide * density
    result = value.astype(np.float32)
    result[np.isposinf(x)] = 1
    result[np.isneginf(x)] = 0
    return result


def _limit(value: Array, x: Array) -> Array:
    """What gates tend to at minus infinity: 0, not infinity times 0."""
    result = value.astype(np.float32)
    lowest = np.isneginf(x)
    if lowest.any():
        result[lowest] = 0
    return result


def _wide_sigmoid(x: Array) -> Array:
    """The logistic function in float64. Where the exponential overflows, float32 knows 0 only."""
    value: Array = np.negative(x)
    np.exp(value, out=value)
    value += 1.0
    np.divide(1.0, value, out=value)
    return value


def _sigmoid(x: Array) -> Array:
    return _wide_sigmoid(x.astype(np.float64)).astype(np.float32)


def _gate(slope: float) -> Callable[[Array], Array]:
    """``x * sigmoid(slope * x)``."""

    def apply(x: Array) -> Array:
        wide = x.astype(np.float64)
        with np.errstate(invalid="ignore"):
            value = wide * _wide_sigmoid(slope * wide)
        return _limit(value, x)

    return apply


def _gate_slope(slope: float) -> Callable[[Array], Array]:
    """Derivative of ``x * sigmoid(slope * x)``."""

    def apply(x: Array) -> Array:
        wide = slope * x.astype(np.float64)
        s = _wide_sigmoid(wide)
        with np.errstate(invalid="ignore"):
            value = s * (1.0 + wide * (1.0 - s))
        result = value.astype(np.float32)
        result[np.isposinf(x)] = 1
        result[np.isneginf(x)] = 0
        return result

    return apply


def _wide_softplus(x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        value: Array = np.logaddexp(0.0, x)
    return value


def _softplus(x: Array) -> Array:
    return _wide_softplus(x.astype(np.float64)).astype(np.float32)


def _mish(x: Array) -> Array:
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        value = wide * np.tanh(_wide_softplus(wide))
    return _limit(value, x)


def _gelu_tanh(x: Array) -> Array:
    """``x / 2 (1 + tanh(u))`` equals ``x sigmoid(2 u)``."""
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        inner = 0.7978845608028654 * (wide + 0.044715 * wide * wide * wide)
        value = wide * _wide_sigmoid(2 * inner)
    return _limit(value, x)


def _erf_dx(x: Array) -> Array:
    wide = x.astype(np.float64)
    return (np.exp(-wide * wide) * 1.1283791670955126).astype(np.float32)


def reciprocal(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.float32(1) / x


def _rsqrt(x: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return (1.0 / np.sqrt(x.astype(np.float64))).astype(np.float32)


def prelu(x: Array, slope: object = np.float32(0)) -> Array:
    """``x`` where positive, ``slope * x`` elsewhere."""
    value: Array = np.where(x > 0, x, x * np.float32(0) if slope is None else x * slope)
    return value


UNARY: dict[str, Callable[[Array], Array]] = {
    "copy": lambda x: x,
    "square": np.square,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, np.float32(0)),
    "prelu": lambda x: np.maximum(x, np.float32(0)),
    "gelu": _gelu,
    "gelu_dx": _gelu_dx,
    "gelu_apprx_tanh": _gelu_tanh,
    "gelu_apprx_sigmoid": _gate(1.702),
    "gelu_apprx_sigmoid_dx": _gate_slope(1.702),
    "silu": _gate(1.0),
    "silu_dx": _gate_slope(1.0),
    "tanh": np.tanh,
    "softplus": _softplus,
    "mish": _mish,
    "erf": _erf,
    "erf_dx": _erf_dx,
    "exp": np.exp,
    "sign": np.sign,
    "abs": np.abs,
    "log": np.log,
    "sin": np.sin,
    "arctan": np.arctan,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "reciprocal": reciprocal,
    "logical_not": lambda x: np.equal(x, 0).astype(np.float32),
}
"""Activation functions and unary operators by name."""

VALID_MAGNITUDES: dict[str, float] = {"sin": pi, "arctan": pi / 2}
"""Largest inputs for which the Scalar Engine gives a function (table of activation functions)."""
