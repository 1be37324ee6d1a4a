"""Numerics of element-wise instructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.numerics.base import (
    REMARKS,
    Attributes,
    Inputs,
    Results,
    accumulate,
    computes,
    finished,
    like,
    offered,
    operand_of,
    pair,
)
from accelopt_lsp.profiler.simulator.numerics.functions import (
    UNARY,
    VALID_MAGNITUDES,
    prelu,
)
from accelopt_lsp.profiler.simulator.numerics.operators import UnknownOperator, as_float


def _applied(name: str, value: Array, out: Array | None = None) -> Array:
    """An activation function of scaled and shifted data, in ``out`` if that is easy."""
    function = UNARY.get(name)
    if function is None:
        raise UnknownOperator(f"unknown activation function {name!r}")
    limit = VALID_MAGNITUDES.get(name)
    if limit is not None and value.size and np.nanmax(np.abs(value)) > np.float32(limit):
        REMARKS.append(
            f"activation: inputs of {name} outside [-{limit:.4g}, {limit:.4g}], where the Scalar "
            "Engine's results are invalid; the simulator goes on with the mathematical function"
        )
    if out is not None and isinstance(function, np.ufunc):
        function(value, out=out)
        return out
    return function(value)


@computes("activation")
def _activation(inputs: Inputs, attrs: Attributes) -> Results:
    value = data = as_float(inputs["data"])
    scale = operand_of(inputs, attrs, "scale", data)
    if scale is not None and not (isinstance(scale, float | int) and scale == 1):
        value = value * as_float(scale)
    bias = operand_of(inputs, attrs, "bias", data)
    if bias is not None and not (isinstance(bias, float | int) and bias == 0):
        value = value + as_float(bias)
    result = _applied(attrs["op"], value, offered(inputs, value.shape))
    if attrs.get("reduce_op") is None:
        return {"dst": result}
    return {"dst": result, **accumulate(inputs, attrs, attrs["reduce_op"], result)}


@computes("activate2")
def _activate2(inputs: Inputs, attrs: Attributes) -> Results:
    value = data = as_float(inputs["data"])
    for number in "01":
        op = attrs[f"op{number}"]
        if op != "bypass":
            operand = operand_of(inputs, attrs, f"imm{number}", data)
            value = pair(op, value, operand, attrs.get(f"reverse{number}", False), {})
    if attrs["op"] == "prelu":
        slope = operand_of(inputs, attrs, "relu_param", data)
        result = prelu(value, np.float32(0) if slope is None else as_float(slope))
    else:
        result = _applied(attrs["op"], value)
    if attrs.get("reduce_op") is None:
        return {"dst": result}
    return {"dst": result, **accumulate(inputs, attrs, attrs["reduce_op"], result)}


@computes("exponential")
def _exponential(inputs: Inputs, attrs: Attributes) -> Results:
    data = as_float(inputs["src"])
    maximum = operand_of(inputs, attrs, "max_value", data)
    with np.errstate(over="ignore"):
        result = np.exp(data - as_float(0.0 if maximum is None else maximum))
    return {"dst": result, **accumulate(inputs, attrs, "add", result)}


@computes("tensor_tensor")
def _tensor_tensor(inputs: Inputs, attrs: Attributes) -> Results:
    first = inputs["data1"]
    second = like(inputs["data2"], first)
    out = offered(inputs, first.shape)
    return {"dst": finished(pair(attrs["op"], first, second, False, attrs, out), attrs)}


@computes("tensor_scalar")
def _tensor_scalar(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    first = operand_of(inputs, attrs, "operand0", data)
    out = offered(inputs, data.shape)
    op1 = attrs.get("op1")
    value: Any = pair(
        attrs["op0"], data, first, attrs.get("reverse0", False), attrs, None if op1 else out
    )
    if op1 is not None:
        second = operand_of(inputs, attrs, "operand1", data)
        value = pair(op1, value, second, attrs.get("reverse1", False), attrs, out)
    return {"dst": finished(value, attrs)}


@computes("scalar_tensor_tensor")
def _scalar_tensor_tensor(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    first = operand_of(inputs, attrs, "operand0", data)
    value = pair(attrs["op0"], data, first, attrs.get("reverse0", False), attrs)
    second = like(inputs["operand1"], data)
    return {"dst": pair(attrs["op1"], value, second, attrs.get("reverse1", False), attrs)}


@computes("tensor_copy")
def _tensor_copy(inputs: Inputs, attrs: Attributes) -> Results:
    """Bits between equal types; other casts pass through float32 (nisa.tensor_copy)."""
    src = inputs["src"]
    if attrs.get("through") is None and src.dtype == attrs.get("dst", src.dtype):
        return {"dst": src}
    return {"dst": as_float(src)}


@computes("dma_copy")
def _dma_copy(inputs: Inputs, attrs: Attributes) -> Results:
    """``src``, cast through float32, or added to what the destination holds."""
    before = inputs.get("before")
    if before is None:
        src = inputs["src"]
        return {"dst": src if src.dtype == attrs["dst"] else as_float(src)}
    return {"dst": as_float(before) + as_float(inputs["src"]).reshape(before.shape)}


@computes("reciprocal")
def _reciprocal_instruction(inputs: Inputs, attrs: Attributes) -> Results:
    data = as_float(inputs["data"])
    return {"dst": np.divide(np.float32(1), data, out=offered(inputs, data.shape))}


@computes("memset")
def _memset(inputs: Inputs, attrs: Attributes) -> Results:
    return {"dst": np.asarray(attrs["value"])}
