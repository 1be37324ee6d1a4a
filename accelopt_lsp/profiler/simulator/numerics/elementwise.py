"""Numerics of element-wise instructions."""

from __future__ import annotations

import numpy as np

from accelopt_lsp.profiler.simulator.numerics.base import (
    Attributes,
    Inputs,
    Results,
    computes,
    like,
    operand_of,
    pair,
)
from accelopt_lsp.profiler.simulator.numerics.functions import UNARY, reciprocal
from accelopt_lsp.profiler.simulator.numerics.operators import (
    UnknownOperator,
    as_float,
    row_reduce,
)


@computes("activation")
def _activation(inputs: Inputs, attrs: Attributes) -> Results:
    value = data = as_float(inputs["data"])
    scale = operand_of(inputs, attrs, "scale", data)
    if scale is not None and not (isinstance(scale, float | int) and scale == 1):
        value = value * as_float(scale)
    bias = operand_of(inputs, attrs, "bias", data)
    if bias is not None and not (isinstance(bias, float | int) and bias == 0):
        value = value + as_float(bias)
    name = attrs["op"]
    function = UNARY.get(name)
    if function is None:
        raise UnknownOperator(f"unknown activation function {name!r}")
    result = function(value)
    results = {"dst": result}
    if attrs.get("reduce_op") is not None:
        results["reduce_res"] = row_reduce(attrs["reduce_op"], result)
    return results


@computes("tensor_tensor")
def _tensor_tensor(inputs: Inputs, attrs: Attributes) -> Results:
    first = inputs["data1"]
    second = like(inputs["data2"], first)
    return {"dst": pair(attrs["op"], first, second, False, attrs)}


@computes("tensor_scalar")
def _tensor_scalar(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    first = operand_of(inputs, attrs, "operand0", data)
    value = pair(attrs["op0"], data, first, attrs.get("reverse0", False), attrs)
    if attrs.get("op1") is not None:
        second = operand_of(inputs, attrs, "operand1", data)
        value = pair(attrs["op1"], value, second, attrs.get("reverse1", False), attrs)
    return {"dst": value}


@computes("scalar_tensor_tensor")
def _scalar_tensor_tensor(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    first = operand_of(inputs, attrs, "operand0", data)
    value = pair(attrs["op0"], data, first, attrs.get("reverse0", False), attrs)
    second = like(inputs["operand1"], data)
    return {"dst": pair(attrs["op1"], value, second, attrs.get("reverse1", False), attrs)}


@computes("tensor_copy")
@computes("dma_copy")
def _copy(inputs: Inputs, attrs: Attributes) -> Results:
    return {"dst": inputs["src"]}


@computes("reciprocal")
def _reciprocal_instruction(inputs: Inputs, attrs: Attributes) -> Results:
    return {"dst": reciprocal(as_float(inputs["data"]))}


@computes("memset")
def _memset(inputs: Inputs, attrs: Attributes) -> Results:
    return {"dst": np.asarray(attrs["value"])}
