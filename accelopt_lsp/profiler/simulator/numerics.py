"""Layer 5 of the instruction table: what every instruction computes, in NumPy.

Inputs are float32 views of the operands (integers as themselves); arithmetic is in float32 as
inside the engines. Results are unrounded: whoever stores them rounds to the destination's type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from accelopt_lsp.profiler.simulator.elements import Array

Inputs = Mapping[str, Array]
Attributes = Mapping[str, Any]
Results = dict[str, Array]
Numeric = Callable[[Inputs, Attributes], Results]

NUMERICS: dict[str, Numeric] = {}
"""Instruction id to its function: operand arrays by role and attributes to result arrays."""


def computes(instruction: str) -> Callable[[Numeric], Numeric]:
    """Register the function of an instruction."""

    def register(function: Numeric) -> Numeric:
        NUMERICS[instruction] = function
        return function

    return register


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


def _reciprocal(x: Array) -> Array:
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
    "reciprocal": _reciprocal,
}
"""Activation functions by name."""


def _truth(function: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        return function(a, b).astype(np.float32)

    return apply


def _logical(function: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        return function(np.not_equal(a, 0), np.not_equal(b, 0)).astype(np.float32)

    return apply


BINARY: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "divide": np.divide,
    "power": np.power,
    "equal": _truth(np.equal),
    "not_equal": _truth(np.not_equal),
    "greater": _truth(np.greater),
    "greater_equal": _truth(np.greater_equal),
    "less": _truth(np.less),
    "less_equal": _truth(np.less_equal),
    "logical_and": _logical(np.logical_and),
    "logical_or": _logical(np.logical_or),
    "logical_xor": _logical(np.logical_xor),
}
BITWISE: dict[str, Callable[..., Array]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}
REDUCERS: dict[str, np.ufunc] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


class UnknownOperator(ValueError):
    """An operator without numerics."""


def _float(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return values if values.dtype == np.float32 else values.astype(np.float32)
    return np.float32(values)


def operate(name: str, a: Any, b: Any, *, exact: bool = False) -> Array:
    """``a name b``, in float32; bitwise operators and ``exact`` ones on integers.

    Raises:
        UnknownOperator: no such operator.
    """
    bitwise = BITWISE.get(name)
    if bitwise is not None:
        return bitwise(np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64))
    function = BINARY.get(name)
    if function is None:
        unary = UNARY.get(name)
        if unary is None:
            raise UnknownOperator(f"unknown operator {name!r}")
        return unary(_float(a))
    if exact and _integral(a) and _integral(b):
        return function(np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64))
    return function(_float(a), _float(b))


def _integral(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.dtype.kind in "iu"
    return isinstance(values, int | np.integer)


def _like(values: Array, data: Array) -> Array:
    """A tile of another shape with as many elements, or a [P, 1] vector, against ``data``."""
    if values.shape == data.shape:
        return values
    if values.size == data.size:
        return values.reshape(data.shape)
    return values.reshape(values.shape[0], *(1,) * (data.ndim - 1))


def _operand(inputs: Inputs, attrs: Attributes, role: str, data: Array) -> Any:
    given = inputs.get(role)
    return attrs.get(role) if given is None else _like(given, data)


def _pair(op: str, a: Any, b: Any, reverse: bool, attrs: Attributes) -> Array:
    exact = attrs.get("engine") == "gpsimd"
    return operate(op, b, a, exact=exact) if reverse else operate(op, a, b, exact=exact)


@computes("nc_matmul")
def _nc_matmul(inputs: Inputs, attrs: Attributes) -> Results:
    stationary, moving = _float(inputs["stationary"]), _float(inputs["moving"])
    if stationary.ndim > 2:
        stationary = stationary.reshape(stationary.shape[0], -1)
    if moving.ndim > 2:
        moving = moving.reshape(moving.shape[0], -1)
    return {"dst": np.matmul(stationary.T, moving)}


@computes("nc_transpose")
def _nc_transpose(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    return {"dst": data.reshape(data.shape[0], -1).T}


@computes("activation")
def _activation(inputs: Inputs, attrs: Attributes) -> Results:
    value = data = _float(inputs["data"])
    scale = _operand(inputs, attrs, "scale", data)
    if scale is not None and not (isinstance(scale, float | int) and scale == 1):
        value = value * _float(scale)
    bias = _operand(inputs, attrs, "bias", data)
    if bias is not None and not (isinstance(bias, float | int) and bias == 0):
        value = value + _float(bias)
    name = attrs["op"]
    function = UNARY.get(name)
    if function is None:
        raise UnknownOperator(f"unknown activation function {name!r}")
    result = function(value)
    results = {"dst": result}
    if attrs.get("reduce_op") is not None:
        results["reduce_res"] = _row_reduce(attrs["reduce_op"], result)
    return results


def _row_reduce(op: str, values: Array) -> Array:
    rows = values.reshape(values.shape[0], -1)
    value: Array = _reducer(op).reduce(rows, axis=1)
    return value.reshape(-1, 1)


def _reducer(op: str) -> np.ufunc:
    found = REDUCERS.get(op)
    if found is None:
        raise UnknownOperator(f"unknown reduction {op!r}")
    return found


@computes("tensor_tensor")
def _tensor_tensor(inputs: Inputs, attrs: Attributes) -> Results:
    first = inputs["data1"]
    second = _like(inputs["data2"], first)
    return {"dst": _pair(attrs["op"], first, second, False, attrs)}


@computes("tensor_scalar")
def _tensor_scalar(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    first = _operand(inputs, attrs, "operand0", data)
    value = _pair(attrs["op0"], data, first, attrs.get("reverse0", False), attrs)
    if attrs.get("op1") is not None:
        second = _operand(inputs, attrs, "operand1", data)
        value = _pair(attrs["op1"], value, second, attrs.get("reverse1", False), attrs)
    return {"dst": value}


@computes("scalar_tensor_tensor")
def _scalar_tensor_tensor(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    first = _operand(inputs, attrs, "operand0", data)
    value = _pair(attrs["op0"], data, first, attrs.get("reverse0", False), attrs)
    second = _like(inputs["operand1"], data)
    return {"dst": _pair(attrs["op1"], value, second, attrs.get("reverse1", False), attrs)}


@computes("tensor_scalar_reduce")
def _tensor_scalar_reduce(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    first = _operand(inputs, attrs, "operand0", data)
    value = _pair(attrs["op0"], data, first, attrs.get("reverse0", False), attrs)
    return {"dst": value, "reduce_res": _row_reduce(attrs["reduce_op"], value)}


@computes("tensor_tensor_scan")
def _tensor_tensor_scan(inputs: Inputs, attrs: Attributes) -> Results:
    first = _float(inputs["data0"])
    rows = first.shape[0]
    # The scan runs along the free axis, so columns are brought together in memory.
    a = np.ascontiguousarray(first.reshape(rows, -1).T)
    b = np.ascontiguousarray(_float(inputs["data1"]).reshape(rows, -1).T)
    initial = inputs.get("initial")
    state: Any = attrs.get("initial", 0.0) if initial is None else _float(initial).reshape(-1)
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
        data = _float(data)
    value = _reducer(attrs["op"]).reduce(data, axis=tuple(attrs["axis"]))
    if attrs.get("negate"):
        value = np.negative(value)
    return {"dst": value}


@computes("tensor_copy")
@computes("dma_copy")
def _copy(inputs: Inputs, attrs: Attributes) -> Results:
    return {"dst": inputs["src"]}


@computes("reciprocal")
def _reciprocal_instruction(inputs: Inputs, attrs: Attributes) -> Results:
    return {"dst": _reciprocal(_float(inputs["data"]))}


@computes("memset")
def _memset(inputs: Inputs, attrs: Attributes) -> Results:
    return {"dst": np.asarray(attrs["value"])}


@computes("dma_transpose")
def _dma_transpose(inputs: Inputs, attrs: Attributes) -> Results:
    return {"dst": np.transpose(inputs["src"], attrs["axes"])}
