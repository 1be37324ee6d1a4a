"""Activation functions, in float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accelopt_lsp.profiler.simulator.elements import Array


def _erf(x: Array) -> Array:
    """Error function, absolute error below 1.5e-7 (Abramowitz and Stegun 7.1.26)."""
    wide = np.abs(x.astype(np.float64))
    t = 1.0 / (1.0 + 0.3275911 * wide)
    series = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    value: Array = np.sign(x) * (1.0 - series * np.exp(-wide * wide))
    return value.astype(np.float32)


def _sigmoid(x: Array) -> Array:
    return np.float32(1) / (np.float32(1) + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.logaddexp(np.float32(0), x)


def _normal_density(x: Array) -> Array:
    return np.exp(np.float32(-0.5) * x * x) * np.float32(0.3989422804014327)


def _normal_distribution(x: Array) -> Array:
    return np.float32(0.5) * (np.float32(1) + _erf(x * np.float32(0.7071067811865476)))


def _gelu_tanh(x: Array) -> Array:
    inner = np.float32(0.7978845608028654) * (x + np.float32(0.044715) * x * x * x)
    value: Array = np.float32(0.5) * x * (np.float32(1) + np.tanh(inner))
    return value


def _silu_dx(x: Array) -> Array:
    s = _sigmoid(x)
    value: Array = s * (np.float32(1) + x * (np.float32(1) - s))
    return value


def reciprocal(x: Array) -> Array:
    return np.float32(1) / x


def _rsqrt(x: Array) -> Array:
    return np.float32(1) / np.sqrt(x)


UNARY: dict[str, Callable[[Array], Array]] = {
    "copy": lambda x: x,
    "square": np.square,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, np.float32(0)),
    "gelu": lambda x: x * _normal_distribution(x),
    "gelu_dx": lambda x: _normal_distribution(x) + x * _normal_density(x),
    "gelu_apprx_tanh": _gelu_tanh,
    "gelu_apprx_sigmoid": lambda x: x * _sigmoid(np.float32(1.702) * x),
    "silu": lambda x: x * _sigmoid(x),
    "silu_dx": _silu_dx,
    "tanh": np.tanh,
    "softplus": _softplus,
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "erf": _erf,
    "erf_dx": lambda x: np.exp(-x * x) * np.float32(1.1283791670955126),
    "exp": np.exp,
    "sign": np.sign,
    "abs": np.abs,
    "log": np.log,
    "sin": np.sin,
    "arctan": np.arctan,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "reciprocal": reciprocal,
}
"""Activation functions by name."""
