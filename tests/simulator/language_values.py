# ruff: noqa: E501 - one row of a table stays on one line
"""Functions and operators of ``nki.language``, and what NumPy says that they give."""

from __future__ import annotations

from math import erf as scalar_erf
from math import pi
from typing import Any

import ml_dtypes
import numpy as np

from accelopt_lsp.nki.dialects import Dialect

LEGACY, CURRENT = Dialect.LEGACY, Dialect.CURRENT
BOTH = (LEGACY, CURRENT)
ROWS, COLUMNS = 128, 96
_random = np.random.default_rng(7)


def _normal(*shape: int) -> Any:
    return _random.standard_normal(shape, dtype=np.float32)


def _integers(low: int, high: int, dtype: Any, *shape: int) -> Any:
    return _random.integers(low, high, shape).astype(dtype)


INPUTS: dict[str, Any] = {
    "a": _normal(ROWS, COLUMNS),
    "b": _normal(ROWS, COLUMNS),
    "far": _normal(ROWS, COLUMNS) * 300,
    "positive": np.abs(_normal(ROWS, COLUMNS)) + 0.1,
    "column": _normal(ROWS, 1),
    "row": _normal(1, COLUMNS),
    "cube": _normal(ROWS, 4, 24),
    "half": _normal(ROWS, COLUMNS).astype(np.float16),
    "brain": _normal(ROWS, COLUMNS).astype(ml_dtypes.bfloat16),
    "i": _integers(-1000, 1000, np.int32, ROWS, COLUMNS),
    "j": _integers(1, 20, np.int32, ROWS, COLUMNS),
    "byte": _integers(0, 256, np.uint8, ROWS, COLUMNS),
    "small": _integers(-100, 100, np.int8, ROWS, COLUMNS),
    "flag": _integers(0, 2, np.float32, ROWS, COLUMNS),
    "other": _integers(0, 2, np.float32, ROWS, COLUMNS),
    "k": _normal(64, ROWS),
    "weights": _normal(ROWS, 200),
    "square": _normal(ROWS, ROWS),
    "tiny": _normal(16, 24),
    "where": _integers(0, COLUMNS, np.uint32, ROWS, 10),
    "sparse": np.where(_normal(ROWS, COLUMNS) > -2.2, 1, 0).astype(np.float32),
}


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _erf(x: Any) -> Any:
    return np.vectorize(scalar_erf)(x)


def _phi(x: Any) -> Any:
    return np.exp(-x * x / 2) / np.sqrt(2 * pi)


def _softmax(x: Any, axis: Any) -> Any:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


def _gelu_sigmoid_dx(x: Any) -> Any:
    s = _sigmoid(1.702 * x)
    return s + 1.702 * x * s * (1 - s)


def _rms(x: Any, axis: Any) -> Any:
    return x / np.sqrt((x * x).mean(axis=axis, keepdims=True) + 1e-6)


# (expression, dialects, inputs, reference)
CASES: list[tuple[str, tuple[Dialect, ...], str, Any]] = [
    ("nl.exp(a)", BOTH, "a", np.exp),
    ("nl.log(positive)", BOTH, "positive", np.log),
    ("nl.sqrt(positive)", BOTH, "positive", np.sqrt),
    ("nl.rsqrt(positive)", BOTH, "positive", lambda x: 1 / np.sqrt(x)),
    ("nl.reciprocal(positive)", BOTH, "positive", lambda x: 1 / x),
    ("nl.tanh(a)", BOTH, "a", np.tanh),
    ("nl.sigmoid(a)", BOTH, "a", _sigmoid),
    ("nl.relu(a)", BOTH, "a", lambda x: np.maximum(x, 0)),
    ("nl.gelu(a)", BOTH, "a", lambda x: x * (1 + _erf(x / np.sqrt(2))) / 2),
    ("nl.gelu_dx(a)", BOTH, "a", lambda x: (1 + _erf(x / np.sqrt(2))) / 2 + x * _phi(x)),
    ("nl.gelu_apprx_tanh(a)", BOTH, "a", lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / pi) * (x + 0.044715 * x**3)))),
    ("nl.gelu_apprx_sigmoid(a)", BOTH, "a", lambda x: x * _sigmoid(1.702 * x)),
    ("nl.gelu_apprx_sigmoid_dx(a)", (CURRENT,), "a", _gelu_sigmoid_dx),
    ("nl.silu(a)", BOTH, "a", lambda x: x * _sigmoid(x)),
    ("nl.silu_dx(a)", BOTH, "a", lambda x: _sigmoid(x) * (1 + x * (1 - _sigmoid(x)))),
    ("nl.softplus(a)", BOTH, "a", _softplus),
    ("nl.mish(a)", BOTH, "a", lambda x: x * np.tanh(_softplus(x))),
    ("nl.erf(a)", BOTH, "a", _erf),
    ("nl.erf_dx(a)", BOTH, "a", lambda x: 2 / np.sqrt(pi) * np.exp(-x * x)),
    ("nl.arctan(a)", BOTH, "a", np.arctan),
    ("nl.sign(a)", BOTH, "a", np.sign),
    ("nl.square(a)", BOTH, "a", np.square),
    ("nl.abs(a)", BOTH, "a", np.abs),
    ("abs(a)", BOTH, "a", np.abs),
    ("nl.negative(a)", BOTH, "a", np.negative),
    ("-a", BOTH, "a", np.negative),
    # beyond the range of the Scalar Engine's sine
    ("nl.sin(far)", BOTH, "far", lambda x: np.sin(x.astype(np.float64))),
    ("nl.cos(far)", BOTH, "far", lambda x: np.cos(x.astype(np.float64))),
    ("nl.tan(nl.multiply(a, 0.3))", BOTH, "a", lambda x: np.tan(x * np.float32(0.3))),
    ("nl.ceil(far)", BOTH, "far", np.ceil),
    ("nl.floor(far)", BOTH, "far", np.floor),
    ("nl.trunc(far)", BOTH, "far", np.trunc),
    ("nl.floor(nl.multiply(far, 1e9))", BOTH, "far", lambda x: np.floor(x * np.float32(1e9))),
    ("nl.floor(i)", BOTH, "i", lambda x: x),
    # two tiles
    ("nl.add(a, b)", BOTH, "a b", np.add),
    ("nl.subtract(a, b)", BOTH, "a b", np.subtract),
    ("nl.multiply(a, b)", BOTH, "a b", np.multiply),
    ("nl.maximum(a, b)", BOTH, "a b", np.maximum),
    ("nl.minimum(a, b)", BOTH, "a b", np.minimum),
    ("nl.divide(a, positive)", BOTH, "a positive", np.divide),
    ("nl.power(positive, b)", BOTH, "positive b", np.power),
    ("nl.mod(far, b)", BOTH, "far b", np.mod),
    ("nl.fmod(far, b)", BOTH, "far b", np.fmod),
    ("nl.mod(i, j)", BOTH, "i j", np.mod),
    ("nl.mod(i, 7)", BOTH, "i", lambda x: np.mod(x, 7)),
    ("nl.fmod(100.0, positive)", BOTH, "positive", lambda x: np.fmod(np.float32(100), x)),
    ("a % 3.0", BOTH, "a", lambda x: np.mod(x, np.float32(3))),
    ("nl.abs_max(a, b)", (CURRENT,), "a b", lambda x, y: np.where(np.abs(x) > np.abs(y), x, y)),
    ("nl.abs_min(a, b)", (CURRENT,), "a b", lambda x, y: np.where(np.abs(x) < np.abs(y), x, y)),
    # a tile and a number, a tile and a column
    ("nl.add(a, 1.5)", BOTH, "a", lambda x: x + np.float32(1.5)),
    ("nl.subtract(1.5, a)", BOTH, "a", lambda x: np.float32(1.5) - x),
    ("nl.subtract(a, column)", BOTH, "a column", np.subtract),
    ("nl.subtract(column, a)", BOTH, "column a", np.subtract),
    ("nl.divide(2.0, positive)", BOTH, "positive", lambda x: 2 / x),
    ("nl.divide(a, 3.0)", BOTH, "a", lambda x: x / 3),
    ("nl.divide(column, positive)", BOTH, "column positive", np.divide),
    ("nl.power(positive, 1.5)", BOTH, "positive", lambda x: x**1.5),
    ("a + b", BOTH, "a b", np.add),
    ("a - b", BOTH, "a b", np.subtract),
    ("2.0 * a", BOTH, "a", lambda x: 2 * x),
    ("1.0 / positive", BOTH, "positive", lambda x: 1 / x),
    ("positive ** 2.0", BOTH, "positive", np.square),
    ("a * column", BOTH, "a column", np.multiply),
    # nl.* broadcasts partitions in the legacy dialect
    ("nl.multiply(a, row)", (LEGACY,), "a row", np.multiply),
    ("nl.add(column, row)", (LEGACY,), "column row", np.add),
    ("nl.divide(row, positive)", (LEGACY,), "row positive", np.divide),
    # types: legacy promotes, and a plain number counts as int32 or float32
    ("nl.add(half, brain)", (LEGACY,), "half brain", lambda x, y: x.astype(np.float32) + y.astype(np.float32)),
    ("nl.add(half, 1.2)", (LEGACY,), "half", lambda x: x.astype(np.float32) + np.float32(1.2)),
    ("nl.add(half, np.float16(2))", (LEGACY,), "half", lambda x: x + np.float16(2)),
    ("nl.add(half, 2)", (LEGACY,), "half", lambda x: x + np.float16(2)),
    ("nl.add(small, 2)", (LEGACY,), "small", lambda x: x.astype(np.int32) + 2),
    ("nl.multiply(i, 0.5)", (LEGACY,), "i", lambda x: x.astype(np.float32) * np.float32(0.5)),
    ("nl.add(small, byte)", (LEGACY,), "small byte", lambda x, y: x.astype(np.int16) + y),
    ("nl.add(half, 1.0)", (CURRENT,), "half", lambda x: x + np.float16(1)),
    ("nl.add(a, b, dtype=nl.float16)", BOTH, "a b", lambda x, y: (x + y).astype(np.float16)),
    ("nl.exp(a, dtype=nl.bfloat16)", BOTH, "a", lambda x: np.exp(x).astype(ml_dtypes.bfloat16)),
    # comparisons and logic
    ("nl.equal(i, j)", (LEGACY,), "i j", np.equal),
    ("nl.not_equal(i, j)", (LEGACY,), "i j", np.not_equal),
    ("nl.less(a, b)", (LEGACY,), "a b", np.less),
    ("nl.less_equal(a, 0.0)", (LEGACY,), "a", lambda x: x <= 0),
    ("nl.greater(a, column)", (LEGACY,), "a column", np.greater),
    ("a > b", (LEGACY,), "a b", np.greater),
    ("nl.greater_equal(a, b, dtype=nl.float32)", (LEGACY,), "a b", lambda x, y: (x >= y).astype(np.float32)),
    ("nl.equal(flag, other)", (CURRENT,), "flag other", lambda x, y: (x == y).astype(np.float32)),
    ("nl.less(a, b, dtype=nl.uint8)", (CURRENT,), "a b", lambda x, y: (x < y).astype(np.uint8)),
    ("nl.logical_and(flag, other)", (LEGACY,), "flag other", np.logical_and),
    ("nl.logical_or(flag, other)", (LEGACY,), "flag other", np.logical_or),
    ("nl.logical_xor(flag, other)", (LEGACY,), "flag other", np.logical_xor),
    ("nl.logical_and(flag, other)", (CURRENT,), "flag other", lambda x, y: x * y),
    ("nl.logical_not(flag)", (LEGACY,), "flag", np.logical_not),
    ("nl.logical_not(a)", (LEGACY,), "a", np.logical_not),
    ("nl.logical_not(flag)", (CURRENT,), "flag", lambda x: 1 - x),
    # bits
    ("nl.bitwise_and(i, j)", BOTH, "i j", np.bitwise_and),
    ("nl.bitwise_or(i, j)", BOTH, "i j", np.bitwise_or),
    ("nl.bitwise_xor(i, j)", BOTH, "i j", np.bitwise_xor),
    ("i & 12", BOTH, "i", lambda x: x & 12),
    ("i | j", BOTH, "i j", np.bitwise_or),
    ("i ^ j", BOTH, "i j", np.bitwise_xor),
    ("~i", BOTH, "i", np.invert),
    ("nl.invert(byte)", BOTH, "byte", np.invert),
    ("nl.invert(small)", BOTH, "small", np.invert),
    ("nl.left_shift(j, 3)", BOTH, "j", lambda x: x << 3),
    ("j << 2", BOTH, "j", lambda x: x << 2),
    ("nl.right_shift(j, 1)", BOTH, "j", lambda x: x >> 1),
    ("j >> 2", BOTH, "j", lambda x: x >> 2),
    # selection
    # reductions
    ("nl.sum(a, axis=1)", BOTH, "a", lambda x: x.sum(1, keepdims=True)),
    ("nl.sum(a, axis=[1], keepdims=True)", BOTH, "a", lambda x: x.sum(1, keepdims=True)),
    ("nl.sum(cube, axis=(1, 2), keepdims=True)", BOTH, "cube", lambda x: x.sum((1, 2), keepdims=True)),
    ("nl.sum(cube, axis=[2])", BOTH, "cube", lambda x: x.sum(2)),
    ("nl.sum(cube, axis=1)", (LEGACY,), "cube", lambda x: x.sum(1)),
    ("nl.max(a, axis=1)", BOTH, "a", lambda x: x.max(1, keepdims=True)),
    ("nl.min(a, axis=1, dtype=nl.float16)", BOTH, "a", lambda x: x.min(1, keepdims=True).astype(np.float16)),
    ("nl.prod(a, axis=1)", BOTH, "a", lambda x: x.prod(1, keepdims=True)),
    ("nl.mean(cube, axis=2)", BOTH, "cube", lambda x: x.mean(2)),
    ("nl.mean(a, axis=-1)", BOTH, "a", lambda x: x.mean(1, keepdims=True)),
    ("nl.var(a, axis=1)", BOTH, "a", lambda x: x.var(1, keepdims=True)),
    ("nl.var(cube, axis=[2])", (LEGACY,), "cube", lambda x: x.var(2)),
    ("nl.var(cube, axis=2)", (CURRENT,), "cube", lambda x: x.var(2, keepdims=True)),
    ("nl.all(sparse, axis=1)", (LEGACY,), "sparse", lambda x: x.all(1, keepdims=True)),
    ("nl.all(sparse, axis=1)", (CURRENT,), "sparse", lambda x: x.all(1, keepdims=True).astype(np.float32)),
    ("nl.softmax(a, axis=1)", BOTH, "a", lambda x: _softmax(x, 1)),
    ("nl.softmax(cube, axis=2)", BOTH, "cube", lambda x: _softmax(x, 2)),
    ("nl.softmax(cube, axis=(1, 2))", BOTH, "cube", lambda x: _softmax(x, (1, 2))),
    ("nl.softmax(a, axis=1, compute_dtype=nl.bfloat16)", (LEGACY,), "a", lambda x: _softmax(x, 1).astype(ml_dtypes.bfloat16)),
    ("nl.rms_norm(a, b, axis=1, n=96)", BOTH, "a b", lambda x, w: _rms(x, 1) * w),
    ("nl.rms_norm(a, row, 1, 96)", BOTH, "a row", lambda x, w: _rms(x, 1) * w),
    ("nl.rms_norm(cube, cube, axis=2, n=24)", BOTH, "cube", lambda x: _rms(x, 2) * x),
    # products
    ("nl.matmul(square, weights)", BOTH, "square weights", np.matmul),
    ("nl.matmul(k, weights)", BOTH, "k weights", np.matmul),
    ("nl.matmul(square, weights, transpose_x=True)", BOTH, "square weights", lambda x, y: x.T @ y),
    ("nl.transpose(square)", BOTH, "square", np.transpose),
    ("nl.transpose(tiny)", BOTH, "tiny", np.transpose),
    ("nl.transpose(nl.matmul(k, weights[:, 0:100]))", (LEGACY,), "k weights", lambda x, y: (x @ y[:, :100]).T),
    ("nl.add(nl.matmul(k, weights), nl.matmul(k, weights))", (LEGACY,), "k weights", lambda x, y: 2 * (x @ y)),
    # movement
    ("nl.copy(a, dtype=nl.bfloat16)", BOTH, "a", lambda x: x.astype(ml_dtypes.bfloat16)),
    ("nl.broadcast_to(row, shape=(128, 96))", BOTH, "row", lambda x: np.repeat(x, 128, 0)),
    ("nl.broadcast_to(column, shape=(128, 96))", BOTH, "column", lambda x: np.repeat(x, 96, 1)),
    ("nl.broadcast_to(row, (128, 96), dtype=nl.bfloat16)", (CURRENT,), "row", lambda x: np.repeat(x, 128, 0).astype(ml_dtypes.bfloat16)),
    ("nl.broadcast_to(nl.copy(row[0:1, 0:1]), shape=(128, 96))", BOTH, "row", lambda x: np.full((128, 96), x[0, 0])),
    ("row.broadcast_to((128, 96))", (LEGACY,), "row", lambda x: np.repeat(x, 128, 0)),
    ("nl.copy(nl.expand_dims(a, 2))", BOTH, "a", lambda x: x[:, :, None]),
    # constants
    ("nl.ones((128, 8), dtype=nl.float32)", BOTH, "", lambda: np.ones((128, 8), np.float32)),
    ("nl.full((128, 8), 3.5, dtype=nl.float16)", BOTH, "", lambda: np.full((128, 8), 3.5, np.float16)),
    ("nl.zeros_like(a)", BOTH, "a", np.zeros_like),
    ("nl.zeros((128, 8), nl.int32, lazy_initialization=True)", (LEGACY,), "", lambda: np.zeros((128, 8), np.int32)),
    ("nl.load(nl.shared_constant(np.arange(256).reshape(128, 2), dtype=nl.int32))", (LEGACY,), "", lambda: np.arange(256, dtype=np.int32).reshape(128, 2)),
    ("nl.load(nl.shared_constant(np.ones((4, 2), np.float32)))", (CURRENT,), "", lambda: np.ones((4, 2), np.float32)),
    ("nl.load(nl.shared_identity_matrix(64, dtype=nl.bfloat16))", (LEGACY,), "", lambda: np.identity(64).astype(ml_dtypes.bfloat16)),
    ("nl.shared_identity_matrix(64)", (CURRENT,), "", lambda: np.identity(64, np.uint8)),
    ("nl.full((128, 4), nl.finfo(nl.float16).max, dtype=nl.float32)", (LEGACY,), "", lambda: np.full((128, 4), 65504, np.float32)),
    ("nl.full((128, 4), nl.static_cast(2.7, nl.int32), dtype=nl.float32)", (LEGACY,), "", lambda: np.full((128, 4), 2, np.float32)),
    ("nl.full((128, 4), nl.fp32.min, dtype=nl.float32)", (LEGACY,), "", lambda: np.full((128, 4), np.finfo(np.float32).min)),
    ("nl.where(nl.greater(a, 0.0), row, column)", (LEGACY,), "a row column", lambda x, r, c: np.where(x > 0, r, c)),
    ("nl.where(nl.greater(a, 0.0), a, b)", (LEGACY,), "a b", lambda x, y: np.where(x > 0, x, y)),
    ("nl.where(nl.greater(a, 0.0), a, 0.0)", (LEGACY,), "a", lambda x: np.where(x > 0, x, np.float32(0))),
    ("nl.where(flag, a, b)", BOTH, "flag a b", lambda c, x, y: np.where(c > 0, x, y)),
    ("nl.gather_flattened(a, where)", BOTH, "a where", lambda x, n: np.take_along_axis(x, n.astype(np.int64), 1)),
    ("nl.dropout(a, 0.0)", BOTH, "a", lambda x: x),
    ("nl.dropout(a, 1.0)", BOTH, "a", lambda x: 0 * x),
]  # fmt: skip
