"""Numerics of selections and patterns."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.numerics.base import (
    WHERE,
    Attributes,
    Inputs,
    Results,
    accumulate,
    computes,
    like,
    operand_of,
)
from accelopt_lsp.profiler.simulator.numerics.operators import as_float

_COMPARE: dict[str, np.ufunc] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}

Steps = tuple[tuple[int, int], ...]


def affine(steps: Steps, offset: int, multiplier: int, partitions: int) -> Array:
    """``offset + p * multiplier + sum(step * position)`` as ``[P, F]`` in wrapping int32."""
    total = np.arange(partitions, dtype=np.int64).reshape(-1, 1) * multiplier + offset
    for step, size in steps:
        span = np.arange(size, dtype=np.int64) * step
        total = (total[:, :, None] + span).reshape(partitions, -1)
    return total.astype(np.int32)


@lru_cache(maxsize=64)
def _holds(comparison: str, steps: Steps, offset: int, multiplier: int, partitions: int) -> Array:
    values = affine(steps, offset, multiplier, partitions)
    mask: Array = _COMPARE[comparison](values, 0)
    mask.flags.writeable = False
    return mask


@computes("affine_select")
def _affine_select(inputs: Inputs, attrs: Attributes) -> Results:
    """Between equal types elements stay as they are; other casts pass through float32."""
    data = inputs["on_true_tile"]
    mask = _holds(
        attrs["cmp_op"],
        attrs["pattern"],
        int(attrs["offset"]),
        int(attrs["channel_multiplier"]),
        data.shape[0],
    ).reshape(data.shape)
    otherwise = np.float32(attrs["on_false_value"])
    if data.dtype.kind in "iu" and data.dtype == attrs.get("dst", data.dtype):
        limits = np.iinfo(data.dtype)
        kept = np.clip(np.nan_to_num(np.rint(np.float64(otherwise))), limits.min, limits.max)
        return {"dst": np.where(mask, data, kept.astype(data.dtype))}
    return {"dst": np.where(mask, as_float(data), otherwise)}


@computes("iota")
def _iota(inputs: Inputs, attrs: Attributes) -> Results:
    rows = attrs["shapes"]["dst"][0]
    steps, multiplier = attrs["pattern"], int(attrs["channel_multiplier"])
    return {"dst": affine(steps, int(attrs["offset"]), multiplier, rows)}


@computes("range_select")
def _range_select(inputs: Inputs, attrs: Attributes) -> Results:
    data = as_float(inputs["on_true_tile"])
    rows = data.reshape(data.shape[0], -1)
    start = int(attrs.get("range_start", 0))
    positions = np.arange(start, start + rows.shape[1], dtype=np.int64).astype(np.float32)
    mask: Any = True
    for number in "01":
        bound = as_float(inputs[f"bound{number}"]).reshape(-1, 1)
        mask = mask & _COMPARE[attrs[f"comp_op{number}"]](positions, bound)
    chosen = np.where(mask, rows, np.float32(attrs["on_false_value"]))
    reduced = accumulate(inputs, attrs, attrs["reduce_op"], chosen)
    return {"dst": chosen.reshape(data.shape), **reduced}


def _truth(inputs: Inputs, attrs: Attributes, shape: tuple[int, ...]) -> Array:
    predicate = inputs["predicate"].reshape(shape)
    holds: Array = np.equal(predicate, 0) if attrs["reverse_pred"] else np.not_equal(predicate, 0)
    return holds


@computes("select_reduce")
def _select_reduce(inputs: Inputs, attrs: Attributes) -> Results:
    data = as_float(inputs["on_true"])
    otherwise = as_float(operand_of(inputs, attrs, "on_false", data))
    chosen = np.where(_truth(inputs, attrs, data.shape), data, otherwise)
    return {"dst": chosen, **accumulate(inputs, attrs, attrs["reduce_op"], chosen)}


@computes("tensor_copy_predicated")
def _tensor_copy_predicated(inputs: Inputs, attrs: Attributes) -> Results:
    predicate = inputs["predicate"]
    src = inputs.get("src")
    value = np.asarray(attrs["src"]) if src is None else like(src, predicate)
    return {"dst": value, WHERE: {"dst": _truth(inputs, attrs, predicate.shape)}}
