"""Numerics of reductions, scans and statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.numerics.base import (
    REGISTERS,
    Attributes,
    Inputs,
    Results,
    accumulate,
    computes,
    finished,
    operand_of,
    pair,
)
from accelopt_lsp.profiler.simulator.numerics.operators import (
    BITWISE,
    IDENTITIES,
    as_float,
    bits_of,
    operate,
    reducer,
)


@computes("tensor_scalar_reduce")
def _tensor_scalar_reduce(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    first = operand_of(inputs, attrs, "operand0", data)
    value = pair(attrs["op0"], data, first, attrs.get("reverse0", False), attrs)
    if attrs["reduce_op"] == "subtract":
        return {"dst": value, **_reduced_by_subtraction(value)}
    return {"dst": value, **accumulate(inputs, attrs, attrs["reduce_op"], value)}


def _reduced_by_subtraction(value: Array) -> Results:
    """The first element less all others (legacy only, which always resets)."""
    rows = value.reshape(value.shape[0], -1)
    result = np.subtract.reduce(rows, axis=1).reshape(-1, 1)
    return {REGISTERS: result, "reduce_res": result}


@computes("tensor_scalar_cumulative")
def _tensor_scalar_cumulative(inputs: Inputs, attrs: Attributes) -> Results:
    src = inputs["src"]
    first = operand_of(inputs, attrs, "imm0", src)
    rows = src.shape[0]
    op = attrs["op1"]
    command = attrs.get("reduce_cmd", "reset_reduce")
    state: Any = np.full(rows, IDENTITIES[op], dtype=np.float32)
    if command == "load_reduce":
        start = operand_of(inputs, attrs, "imm1", src)
        state = np.broadcast_to(as_float(start).reshape(-1), (rows,))
    elif command == "reduce" and inputs.get(REGISTERS) is not None:
        state = inputs[REGISTERS].reshape(-1)
    value = as_float(operate(attrs["op0"], src, first)).reshape(rows, -1)
    columns = np.ascontiguousarray(value.T)
    result = np.empty_like(columns)
    step = _in_place(op)
    for i, column in enumerate(columns):
        state = step(column, state, result[i])
    final = result[-1].reshape(-1, 1) if len(result) else np.asarray(state).reshape(-1, 1)
    return {"dst": result.T.reshape(src.shape), REGISTERS: final.copy()}


_UFUNCS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


def _in_place(op: str) -> Callable[[Array, Array, Array], Array]:
    """``a op b`` written into a row."""
    function = _UFUNCS.get(op)
    if function is not None:
        return lambda a, b, out: function(a, b, out=out)

    def apply(a: Array, b: Array, out: Array) -> Array:
        out[...] = operate(op, a, b)
        return out

    return apply


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
    between = np.empty(rows, dtype=np.float32)
    inner, outer = _in_place(attrs["op0"]), _in_place(attrs["op1"])
    swap0, swap1 = attrs.get("reverse0", False), attrs.get("reverse1", False)
    with np.errstate(all="ignore"):
        for i in range(a.shape[0]):
            value = inner(state, a[i], between) if swap0 else inner(a[i], state, between)
            state = outer(b[i], value, result[i]) if swap1 else outer(value, b[i], result[i])
    return {"dst": result.T.reshape(first.shape)}


@computes("tensor_reduce")
def _tensor_reduce(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    if attrs["op"] in BITWISE:
        return {"dst": finished(reducer(attrs["op"])(bits_of(data), tuple(attrs["axis"])), attrs)}
    value = reducer(attrs["op"])(as_float(data), tuple(attrs["axis"]))
    if attrs.get("negate"):
        value = np.negative(as_float(value))
    return {"dst": value}


@computes("tensor_partition_reduce")
def _tensor_partition_reduce(inputs: Inputs, attrs: Attributes) -> Results:
    data, op = inputs["data"], attrs["op"]
    if op in BITWISE:
        return {"dst": finished(reducer(op)(bits_of(data), 0), attrs)}
    if op == "average":
        return {"dst": np.add.reduce(as_float(data), axis=0) / np.float32(data.shape[0])}
    return {"dst": reducer(op)(as_float(data), 0)}


@computes("bn_stats")
def _bn_stats(inputs: Inputs, attrs: Attributes) -> Results:
    """Counts, means and sums of squared deviations of even and odd elements."""
    data = as_float(inputs["data"])
    rows = data.reshape(data.shape[0], -1)
    result = np.zeros((rows.shape[0], 6), dtype=np.float32)
    for at, part in ((0, rows[:, 0::2]), (3, rows[:, 1::2])):
        count = part.shape[1]
        if count:
            mean = part.mean(axis=1, dtype=np.float32)
            result[:, at] = count
            result[:, at + 1] = mean
            result[:, at + 2] = np.square(part - mean[:, None]).sum(axis=1, dtype=np.float32)
    return {"dst": result}


@computes("bn_aggr")
def _bn_aggr(inputs: Inputs, attrs: Attributes) -> Results:
    """Mean and variance over all groups of (count, mean, variance * count)."""
    data = as_float(inputs["data"])
    triples = data.reshape(data.shape[0], -1, 3).astype(np.float64)
    count, mean, spread = triples[..., 0], triples[..., 1], triples[..., 2]
    with np.errstate(invalid="ignore", divide="ignore"):
        total = count.sum(axis=1)
        merged = (count * mean).sum(axis=1) / total
        away = count * np.square(mean - merged[:, None])
        variance = (spread + away).sum(axis=1) / total
    return {"dst": np.stack([merged, variance], axis=1).astype(np.float32)}
