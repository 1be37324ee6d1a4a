"""Numerics of operations whose instructions no document names."""

from __future__ import annotations

import numpy as np

from accelopt_lsp.profiler.simulator.numerics.base import (
    Attributes,
    Inputs,
    Results,
    computes,
    like,
)
from accelopt_lsp.profiler.simulator.numerics.operators import as_float, integral

_ROUNDING = {"ceil": np.ceil, "floor": np.floor, "trunc": np.trunc}
_REMAINDER = {"mod": np.mod, "fmod": np.fmod}


@computes("round_to_integer")
def _round_to_integer(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    return {"dst": data if integral(data) else _ROUNDING[attrs["op"]](data)}


@computes("remainder")
def _remainder(inputs: Inputs, attrs: Attributes) -> Results:
    first = inputs["data1"] if "data1" in inputs else attrs["data1"]
    second = inputs["data2"] if "data2" in inputs else attrs["data2"]
    if "data1" in inputs and "data2" in inputs:
        second = like(inputs["data2"], inputs["data1"])
    function = _REMAINDER[attrs["op"]]
    if integral(first) and integral(second):
        wide = np.asarray(first).astype(np.int64), np.asarray(second).astype(np.int64)
        return {"dst": function(*wide)}
    return {"dst": function(as_float(first), as_float(second))}
