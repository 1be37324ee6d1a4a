"""Numerics of reductions and scans."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelopt_lsp.profiler.simulator.numerics.base import (
    Attributes,
    Inputs,
    Results,
    computes,
    operand_of,
    pair,
)
from accelopt_lsp.profiler.simulator.numerics.operators import (
    BINARY,
    BITWISE,
    as_float,
    reducer,
    row_reduce,
)


@computes("tensor_scalar_reduce")
def _tensor_scalar_reduce(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    first = operand_of(inputs, attrs, "operand0", data)
    value = pair(attrs["op0"], data, first, attrs.get("reverse0", False), attrs)
    return {"dst": value, "reduce_res": row_reduce(attrs["reduce_op"], value)}


@computes("tensor_tensor_scan")
def _tensor_tensor_scan(inputs: Inputs, attrs: Attributes) -> Results:
    first = as_float(inputs["data0"])
    rows = first.shape[0]
    # The scan runs along the free axis, so columns are brought together in memory.
    a = np.ascontiguousarray(first.reshape(rows, -1).T)
    b = np.ascontiguousarray(as_float(inputs["data1"]).reshape(rows, -1).T)
    initial = inputs.get("initial")
    state: Any = attrs.get("initial", 0.0) if initial is None else as_float(initial).reshape(-1)
    state = np.broadcast_to(np.float32(state), (rows,))
    result = np.empty_like(a)
    first_op, second_op = BINARY[attrs["op0"]], BINARY[attrs["op1"]]
    swap0, swap1 = attrs.get("reverse0", False), attrs.get("reverse1", False)
    for i in range(a.shape[0]):
        value = first_op(state, a[i]) if swap0 else first_op(a[i], state)
        state = second_op(b[i], value) if swap1 else second_op(value, b[i])
        result[i] = state
    return {"dst": result.T.reshape(first.shape)}


@computes("tensor_reduce")
def _tensor_reduce(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    if attrs["op"] not in BITWISE:
        data = as_float(data)
    value = reducer(attrs["op"]).reduce(data, axis=tuple(attrs["axis"]))
    if attrs.get("negate"):
        value = np.negative(value)
    return {"dst": value}
