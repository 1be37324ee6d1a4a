"""Numerics of the Tensor Engine."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.numerics.base import (
    Attributes,
    Inputs,
    Results,
    computes,
    offered,
)
from accelopt_lsp.profiler.simulator.numerics.operators import (
    as_float,
)


@computes("nc_matmul")
def _nc_matmul(inputs: Inputs, attrs: Attributes) -> Results:
    """Products are summed in float32; a transpose in transpose mode moves values as they are."""
    stationary, moving = as_float(inputs["stationary"]), as_float(inputs["moving"])
    if attrs.get("perf_mode") is not None:
        # Two rows of the contraction stand side by side: [K, 2, M] is [2 K, M].
        stationary = stationary.reshape(stationary.shape[0] * 2, -1)
        moving = moving.reshape(moving.shape[0] * 2, -1)
    if stationary.ndim != 2:
        stationary = stationary.reshape(stationary.shape[0], -1)
    if moving.ndim != 2:
        moving = moving.reshape(moving.shape[0], -1)
    if attrs.get("exact"):
        moved = _moved(stationary, moving)
        if moved is not None:
            return {"dst": moved}
    out = offered(inputs, (stationary.shape[1], moving.shape[1]))
    return {"dst": np.matmul(stationary.T, moving, out=out)}


def _moved(stationary: Array, moving: Array) -> Array | None:
    """``stationary.T @ moving`` where one of them selects rows of the other, without arithmetic."""
    moved: Array | None = None
    if _is_identity(moving):
        # Copied first: reading columns of rows that lie pages apart costs twice as much.
        moved = np.ascontiguousarray(stationary).T
    elif _is_identity(stationary):
        moved = moving
    elif _selects(moving):
        moved = stationary[moving.argmax(axis=0)].T
    elif _selects(stationary):
        moved = moving[stationary.argmax(axis=0)]
    return moved


@lru_cache(maxsize=16)
def _identity(size: int) -> Array:
    return np.eye(size, dtype=np.float32)


def _is_identity(matrix: Array) -> bool:
    """The usual selection, found with a twentieth of the work."""
    size = matrix.shape[0]
    return matrix.shape == (size, size) and bool((matrix == _identity(size)).all())


def _selects(matrix: Array) -> bool:
    """One 1 in each column and zeros elsewhere."""
    ones = matrix == 1
    return bool((ones.sum(axis=0) == 1).all()) and bool((ones | (matrix == 0)).all())


@computes("nc_transpose")
def _nc_transpose(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    return {"dst": data.reshape(data.shape[0], -1).T}
