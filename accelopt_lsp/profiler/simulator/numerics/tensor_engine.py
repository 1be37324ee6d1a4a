"""Numerics of the Tensor Engine."""

from __future__ import annotations

import numpy as np

from accelopt_lsp.profiler.simulator.numerics.base import (
    Attributes,
    Inputs,
    Results,
    computes,
)
from accelopt_lsp.profiler.simulator.numerics.operators import (
    as_float,
)


@computes("nc_matmul")
def _nc_matmul(inputs: Inputs, attrs: Attributes) -> Results:
    stationary, moving = as_float(inputs["stationary"]), as_float(inputs["moving"])
    if stationary.ndim > 2:
        stationary = stationary.reshape(stationary.shape[0], -1)
    if moving.ndim > 2:
        moving = moving.reshape(moving.shape[0], -1)
    return {"dst": np.matmul(stationary.T, moving)}


@computes("nc_transpose")
def _nc_transpose(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    return {"dst": data.reshape(data.shape[0], -1).T}
