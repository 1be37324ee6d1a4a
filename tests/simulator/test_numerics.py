"""Every instruction has every layer, and computes what it says."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.apis import APIS
from accelopt_lsp.nki.dialects import Role
from accelopt_lsp.nki.dtypes import Kind, all_dtypes, get_dtype, numpy_dtype
from accelopt_lsp.nki.instructions import (
    ACTIVATION_FUNCTIONS,
    BINARY_OPERATORS,
    INSTRUCTIONS,
    REDUCTION_OPERATORS,
)
from accelopt_lsp.nki.lowering import has_lowering
from accelopt_lsp.profiler.simulator.elements import ROUNDERS, as_dtype, from_carrier, to_carrier
from accelopt_lsp.profiler.simulator.numerics import BINARY, BITWISE, NUMERICS, REDUCERS, UNARY
from tests.simulator.helpers import normal


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_every_instruction_has_all_layers(instruction: str) -> None:
    assert instruction in NUMERICS
    assert any(has_lowering(api.name) for api in APIS.values() if api.instruction == instruction)


def test_numerics_name_only_known_instructions() -> None:
    assert set(NUMERICS) == set(INSTRUCTIONS)


@pytest.mark.parametrize(
    "api", [a.name for a in APIS.values() if a.role in (Role.INSTRUCTION, Role.COMPUTE)]
)
def test_every_function_lowers(api: str) -> None:
    assert has_lowering(api) or api == "nl.loop_reduce"


def test_every_operator_of_the_table_computes() -> None:
    assert set(UNARY) >= ACTIVATION_FUNCTIONS
    assert {*BINARY, *BITWISE} >= BINARY_OPERATORS
    assert set(REDUCERS) >= REDUCTION_OPERATORS


ACTIVATIONS: dict[str, Any] = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "gelu_apprx_sigmoid": lambda x: x / (1 + math.exp(-1.702 * x)),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "tanh": math.tanh,
    "softplus": lambda x: math.log1p(math.exp(x)),
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    "erf": math.erf,
    "exp": math.exp,
    "sign": lambda x: math.copysign(1.0, x),
    "abs": abs,
    "sin": math.sin,
    "arctan": math.atan,
}
POSITIVE: dict[str, Any] = {
    "log": math.log,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
}
DERIVATIVES = {"gelu_dx": "gelu", "silu_dx": "silu", "erf_dx": "erf"}


@pytest.mark.parametrize("name", sorted({*ACTIVATIONS, *POSITIVE}))
def test_activation_functions(name: str) -> None:
    x = normal(64) + np.float32(0.01)
    if name in POSITIVE:
        x = np.abs(x) + np.float32(0.1)
    function = ACTIVATIONS.get(name) or POSITIVE[name]
    expected = np.array([function(float(v)) for v in x])
    assert np.allclose(UNARY[name](x), expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "of"), DERIVATIVES.items())
def test_derivatives(name: str, of: str) -> None:
    x = np.linspace(-3, 3, 41)
    step = 1e-4
    function = ACTIVATIONS[of]
    slope = [(function(v + step) - function(v - step)) / (2 * step) for v in x]
    assert np.allclose(UNARY[name](x.astype(np.float32)), slope, atol=1e-4)


@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from(["bfloat16", "float16", "float8_e5m2"]),
)
def test_rounding_is_to_nearest_even(value: float, name: str) -> None:
    dtype = get_dtype(name)
    values = np.array([value], dtype=np.float32)
    with np.errstate(over="ignore"):
        expected = values.astype(numpy_dtype(dtype)).astype(np.float32)
    assert np.array_equal(ROUNDERS[name](values), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", all_dtypes(), ids=str)
def test_carriers_hold_every_type(dtype: Any) -> None:
    values = np.array([[0.0, 1.0, 2.0, 3.0]])
    if dtype.name == "float8_e8m0fnu":
        values = np.array([[0.25, 1.0, 2.0, 4.0]])
    if dtype.kind is Kind.PACKED:
        # Not numbers, but bits: four values in each.
        values = values.astype(numpy_dtype(dtype))
    carrier = to_carrier(values, dtype)
    back = from_carrier(carrier, dtype)
    assert back.dtype == numpy_dtype(dtype)
    assert np.array_equal(back.astype(np.float64), values > 0 if dtype.name == "bool_" else values)
    alike = dtype.name == "tfloat32" or dtype.kind is Kind.PACKED
    assert as_dtype(back.dtype) is dtype or alike


@pytest.mark.parametrize(
    "name", ["bfloat16", "float16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"]
)
def test_every_pattern_of_bits_survives_both_ways(name: str) -> None:
    dtype = get_dtype(name)
    kind = np.dtype(f"u{dtype.nbytes}")
    bits = np.arange(1 << 8 * dtype.nbytes, dtype=kind)
    back = from_carrier(to_carrier(bits.view(numpy_dtype(dtype)), dtype), dtype)
    different = np.flatnonzero(back.view(kind) != bits)
    assert not different.size, [hex(n) for n in different]


def test_integers_saturate_and_round_to_even() -> None:
    values = np.array([0.5, 1.5, 2.5, 300.0, -300.0, np.nan], dtype=np.float32)
    assert list(ROUNDERS["int8"](values)) == [0, 2, 2, 127, -128, 0]


def test_special_values_survive_rounding() -> None:
    values = np.array([np.inf, -np.inf, np.nan, -0.0], dtype=np.float32)
    rounded = ROUNDERS["bfloat16"](values)
    assert np.array_equal(rounded, values, equal_nan=True)
    assert np.signbit(rounded[3])
    assert np.array_equal(values.astype(ml_dtypes.bfloat16).astype(np.float32), rounded, True)


def test_matmul() -> None:
    stationary, moving = normal(64, 32, seed=1), normal(64, 2, 8, seed=2)
    result = NUMERICS["nc_matmul"]({"stationary": stationary, "moving": moving}, {})["dst"]
    assert np.allclose(result, stationary.T @ moving.reshape(64, 16), rtol=1e-6)


def test_activation_scales_shifts_and_sums() -> None:
    data, bias = normal(8, 16), normal(8, 1, seed=1)
    attrs = {"op": "exp", "scale": np.float32(0.5), "reduce_op": "add"}
    result = NUMERICS["activation"]({"data": data, "bias": bias}, attrs)
    assert np.allclose(result["dst"], np.exp(data * 0.5 + bias), rtol=1e-6)
    assert np.allclose(result["reduce_res"], result["dst"].sum(axis=1, keepdims=True), rtol=1e-5)


def test_tensor_scalar_reverses_operands() -> None:
    data = normal(4, 8)
    attrs = {"op0": "subtract", "operand0": 1.0, "reverse0": True, "op1": "multiply"}
    result = NUMERICS["tensor_scalar"]({"data": data, "operand1": data[:, :1]}, attrs)["dst"]
    assert np.allclose(result, (1 - data) * data[:, :1])


def test_scan() -> None:
    a, b = normal(4, 7, seed=1), normal(4, 7, seed=2)
    attrs = {"op0": "multiply", "op1": "add", "initial": 0.5}
    result = NUMERICS["tensor_tensor_scan"]({"data0": a, "data1": b}, attrs)["dst"]
    state = np.full(4, 0.5, dtype=np.float32)
    for i in range(7):
        state = a[:, i] * state + b[:, i]
        assert np.allclose(result[:, i], state, rtol=1e-5)


def test_reduce_negates() -> None:
    data = normal(4, 3, 5)
    attrs = {"op": "maximum", "axis": (1, 2), "negate": True}
    result = NUMERICS["tensor_reduce"]({"data": data}, attrs)["dst"]
    assert np.allclose(result, -data.max(axis=(1, 2)))


def test_integers_are_exact_on_gpsimd_only() -> None:
    big = np.array([[(1 << 24) + 1]], dtype=np.int32)
    one = np.array([[1]], dtype=np.int32)
    operands = {"data1": big, "data2": one}
    add = NUMERICS["tensor_tensor"]
    assert add(operands, {"op": "add", "engine": "gpsimd"})["dst"][0, 0] == (1 << 24) + 2
    assert add(operands, {"op": "add", "engine": "vector"})["dst"].dtype == np.float32
    shifted = add(operands, {"op": "left_shift", "engine": "vector"})["dst"]
    assert shifted[0, 0] == ((1 << 24) + 1) << 1
