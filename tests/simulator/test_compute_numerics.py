"""What compute instructions compute, against oracles in plain Python."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.profiler.simulator.elements import CARRIERS, ROUNDERS
from accelopt_lsp.profiler.simulator.numerics import NUMERICS, UNARY, operate
from accelopt_lsp.profiler.simulator.numerics.base import REGISTERS, REMARKS
from tests.simulator.helpers import normal


def run(op: str, /, attrs: dict[str, Any] | None = None, **inputs: Any) -> dict[str, Any]:
    return NUMERICS[op](inputs, attrs or {})


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def distribution(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def gate_slope(k: float, x: float) -> float:
    s = sigmoid(k * x)
    return s * (1 + k * x * (1 - s))


FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sigmoid": sigmoid,
    "gelu": lambda x: x * distribution(x),
    "gelu_dx": lambda x: distribution(x) + x * density(x),
    "gelu_apprx_tanh": lambda x: x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: gate_slope(1.702, x),
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": lambda x: gate_slope(1.0, x),
    "softplus": softplus,
    "mish": lambda x: x * math.tanh(softplus(x)),
    "erf": math.erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x),
    "tanh": math.tanh,
    "exp": math.exp,
    "relu": lambda x: max(x, 0.0),
    "prelu": lambda x: max(x, 0.0),
    "square": lambda x: x * x,
    "arctan": math.atan,
    "logical_not": lambda x: float(x == 0),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("reach", [1e-6, 0.3, 3.0, 9.0])
def test_functions_are_as_accurate_as_float32(name: str, reach: float) -> None:
    x = np.linspace(-reach, reach, 1001).astype(np.float32)
    expected = np.array([FUNCTIONS[name](float(v)) for v in x])
    given = UNARY[name](x)
    assert given.dtype == np.float32
    assert np.allclose(given, expected, rtol=3e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("gelu", 0.0, math.inf),
        ("gelu_dx", 0.0, 1.0),
        ("gelu_apprx_tanh", 0.0, math.inf),
        ("gelu_apprx_sigmoid", 0.0, math.inf),
        ("gelu_apprx_sigmoid_dx", 0.0, 1.0),
        ("silu", 0.0, math.inf),
        ("silu_dx", 0.0, 1.0),
        ("mish", 0.0, math.inf),
        ("softplus", 0.0, math.inf),
        ("erf", -1.0, 1.0),
        ("sigmoid", 0.0, 1.0),
    ],
)
def test_functions_have_their_limits(name: str, low: float, high: float) -> None:
    ends = np.array([-np.inf, -200.0, np.nan, np.inf], dtype=np.float32)
    first, second, third, last = UNARY[name](ends).tolist()
    assert (first, last) == (low, high)
    assert abs(second - low) < 1e-30
    assert math.isnan(third)


@given(st.floats(-5.5, 5.5, width=32))
def test_the_error_function_is_relatively_exact(x: float) -> None:
    given = float(UNARY["erf"](np.array([x], dtype=np.float32))[0])
    assert given == pytest.approx(math.erf(x), rel=1.2e-7, abs=1e-44)


def test_functions_beyond_their_range_leave_a_remark() -> None:
    REMARKS.clear()
    run("activation", {"op": "sin"}, data=np.array([[3.0]], dtype=np.float32))
    assert REMARKS == []
    run("activation", {"op": "sin"}, data=np.array([[9.0]], dtype=np.float32))
    assert len(REMARKS) == 1
    REMARKS.clear()


INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]
BITS: dict[str, Callable[[int, int], int]] = {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "left_shift": lambda a, b: a << b,
    "right_shift": lambda a, b: a >> b,
    "invert": lambda a, b: ~a,
}


def wrap(value: int, dtype: np.dtype[Any]) -> int:
    """An integer's lowest bits, read as that type."""
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("op", sorted(BITS))
@given(data=st.data())
def test_bitvec_operators_work_on_raw_bits(name: str, op: str, data: st.DataObject) -> None:
    dtype = CARRIERS[name]
    limits = np.iinfo(dtype)
    values = data.draw(st.lists(st.integers(limits.min, limits.max), min_size=1, max_size=4))
    operand = data.draw(st.integers(0, 40) if "shift" in op else st.integers(0, limits.max))
    width = (1 << (8 * dtype.itemsize)) - 1
    expected = [wrap(BITS[op](v & width, operand), dtype) for v in values]
    tile = np.array([values], dtype=dtype)
    given = run("tensor_scalar", {"op0": op, "operand0": operand, "dst": dtype}, data=tile)["dst"]
    assert given.dtype == dtype
    assert ROUNDERS[name](given).tolist() == [expected]


def test_shifts_right_are_logical() -> None:
    tile = np.array([[-1, -(2**31), 5]], dtype=np.int32)
    attrs = {"op0": "right_shift", "operand0": 31, "dst": tile.dtype}
    assert run("tensor_scalar", attrs, data=tile)["dst"].tolist() == [[1, 1, 0]]


def test_bits_chain_and_pair_up() -> None:
    tile = np.array([[0b1010_1100, 0b0111_0001]], dtype=np.uint8)
    attrs = {"op0": "bitwise_and", "operand0": 0xF0, "op1": "right_shift", "operand1": 4}
    given = run("tensor_scalar", attrs | {"dst": tile.dtype}, data=tile)["dst"]
    assert given.tolist() == [[0b1010, 0b0111]]
    given = run("tensor_tensor", {"op": "bitwise_xor", "dst": tile.dtype}, data1=tile, data2=tile)
    assert given["dst"].tolist() == [[0, 0]]
    # 32-bit patterns keep their highest bit, whatever the sign
    signed = np.array([[-(2**31), 7]], dtype=np.int32)
    attrs = {"op": "bitwise_or", "dst": np.dtype(np.uint32)}
    given = run("tensor_tensor", attrs, data1=signed, data2=signed)["dst"]
    assert given.tolist() == [[2**31, 7]]


def test_integers_are_exact_on_gpsimd_only() -> None:
    big = np.array([[2**24 + 1, 2**31 - 1]], dtype=np.int32)
    one = np.array([[2, 1]], dtype=np.int32)
    attrs = {"op": "add", "dst": big.dtype}
    exact = run("tensor_tensor", attrs | {"engine": "gpsimd"}, data1=big, data2=one)["dst"]
    assert ROUNDERS["int32"](exact).tolist() == [[2**24 + 3, -(2**31)]]
    inexact = run("tensor_tensor", attrs | {"engine": "vector"}, data1=big, data2=one)["dst"]
    assert inexact.dtype == np.float32
    assert ROUNDERS["int32"](inexact).tolist()[0][0] == 2**24 + 4 - 2


def test_copies_are_exact_between_equal_types_only() -> None:
    values = np.array([[2**24 + 1]], dtype=np.int32)
    same = run("tensor_copy", {"dst": np.dtype(np.int32)}, src=values)["dst"]
    assert same.tolist() == [[2**24 + 1]]
    scalar = {"dst": np.dtype(np.int32), "through": "float32"}
    assert ROUNDERS["int32"](run("tensor_copy", scalar, src=values)["dst"]).tolist() == [[2**24]]
    cast = run("tensor_copy", {"dst": np.dtype(np.uint32)}, src=values)["dst"]
    assert ROUNDERS["uint32"](cast).tolist() == [[2**24]]


ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
    "minimum": min,
    "abs_max": lambda a, b: a if abs(a) > abs(b) else b,
    "abs_min": lambda a, b: a if abs(a) < abs(b) else b,
    "equal": lambda a, b: float(a == b),
    "not_equal": lambda a, b: float(a != b),
    "less": lambda a, b: float(a < b),
    "less_equal": lambda a, b: float(a <= b),
    "greater": lambda a, b: float(a > b),
    "greater_equal": lambda a, b: float(a >= b),
    "logical_and": lambda a, b: float(bool(a) and bool(b)),
    "logical_or": lambda a, b: float(bool(a) or bool(b)),
    "logical_xor": lambda a, b: float(bool(a) != bool(b)),
}


def f32(value: float) -> float:
    """The nearest float32."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


@pytest.mark.parametrize("op", sorted(ARITHMETIC))
@pytest.mark.parametrize("reverse", [False, True])
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=6))
def test_arithmetic_operators(op: str, reverse: bool, values: list[float]) -> None:
    tile = np.array([values], dtype=np.float32)
    operand = values[0]
    attrs = {"op0": op, "operand0": np.float32(operand), "reverse0": reverse}
    given = run("tensor_scalar", attrs, data=tile)["dst"]
    function = ARITHMETIC[op]
    expected = [f32(function(operand, v) if reverse else function(v, operand)) for v in values]
    assert given.dtype == np.float32
    assert given.tolist() == [expected]


def test_power_and_unary_operators() -> None:
    x = np.abs(normal(4, 8)) + np.float32(0.5)
    assert np.allclose(operate("power", x, np.float32(-0.5)), x.astype(np.float64) ** -0.5)
    for op, function in (
        ("abs", abs),
        ("square", lambda v: v * v),
        ("relu", lambda v: max(v, 0)),
        ("rsqrt", lambda v: 1 / math.sqrt(v)),
        ("reciprocal", lambda v: 1 / v),
        ("logical_not", lambda v: float(v == 0)),
    ):
        given = run("tensor_scalar", {"op0": op, "op1": "add", "operand1": 1.0}, data=x)["dst"]
        expected = [[function(float(v)) + 1 for v in row] for row in x]
        assert np.allclose(given, expected, rtol=3e-7), op


REDUCTIONS = {
    "add": sum,
    "maximum": max,
    "minimum": min,
    "multiply": math.prod,
    "subtract": lambda v: v[0] - sum(v[1:]),
    "logical_or": lambda v: float(any(v)),
    "logical_and": lambda v: float(all(v)),
    "logical_xor": lambda v: float(sum(bool(x) for x in v) % 2),
    "abs_max": lambda v: max(v, key=abs),
    "abs_min": lambda v: min(v, key=abs),
}


@pytest.mark.parametrize("op", sorted(REDUCTIONS))
@pytest.mark.parametrize("negate", [False, True])
def test_reductions(op: str, negate: bool) -> None:
    data = normal(3, 2, 2, 4)
    data[0, 0, 0, 1] = 0
    given = run("tensor_reduce", {"op": op, "axis": (2, 3), "negate": negate}, data=data)["dst"]
    sign = -1 if negate else 1
    expected = [
        [sign * REDUCTIONS[op]([float(v) for v in part.reshape(-1)]) for part in row]
        for row in data
    ]
    assert given.shape == (3, 2)
    assert np.allclose(given.astype(np.float32), expected, rtol=1e-5, atol=1e-6)


def test_reductions_of_bits() -> None:
    data = np.array([[1, 2, 4], [7, 6, 5]], dtype=np.int16)
    attrs = {"axis": (1,), "dst": data.dtype}
    for op, expected in (
        ("bitwise_or", [7, 7]),
        ("bitwise_and", [0, 4]),
        ("bitwise_xor", [7, 4]),
    ):
        assert run("tensor_reduce", attrs | {"op": op}, data=data)["dst"].tolist() == expected
    assert run("tensor_partition_reduce", attrs | {"op": "bitwise_or"}, data=data)[
        "dst"
    ].tolist() == [7, 6, 5]


@pytest.mark.parametrize(
    ("op", "function"), [("add", sum), ("maximum", max), ("average", lambda v: sum(v) / len(v))]
)
def test_partition_reductions(op: str, function: Callable[[list[float]], float]) -> None:
    data = normal(16, 5)
    given = run("tensor_partition_reduce", {"op": op}, data=data)["dst"]
    assert np.allclose(
        given, [function([float(v) for v in column]) for column in data.T], rtol=1e-5
    )


@pytest.mark.parametrize("free", [1, 2, 7, 512])
def test_statistics(free: int) -> None:
    data = normal(4, free) * np.float32(3) + np.float32(100)
    stats = run("bn_stats", data=data)["dst"]
    for row, found in zip(data.astype(np.float64), stats, strict=True):
        for part, (count, mean, spread) in (
            (row[0::2], found[:3]),
            (row[1::2], found[3:]),
        ):
            assert count == len(part)
            if len(part):
                assert mean == pytest.approx(part.mean(), rel=1e-6)
                assert spread == pytest.approx(part.var() * len(part), rel=1e-3, abs=1e-4)
    merged = run("bn_aggr", data=stats)["dst"]
    assert np.allclose(merged[:, 0], data.mean(axis=1, dtype=np.float64), rtol=1e-6)
    assert np.allclose(merged[:, 1], data.var(axis=1, dtype=np.float64), rtol=1e-3, atol=1e-4)


def test_statistics_of_pieces_merge() -> None:
    data = normal(4, 1000)
    pieces = [run("bn_stats", data=data[:, i : i + 500])["dst"] for i in (0, 500)]
    merged = run("bn_aggr", data=np.concatenate(pieces, axis=1))["dst"]
    assert np.allclose(merged[:, 0], data.mean(axis=1), rtol=1e-5, atol=1e-6)
    assert np.allclose(merged[:, 1], data.var(axis=1), rtol=1e-5)


@pytest.mark.parametrize("op1", ["add", "subtract", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("command", ["reset_reduce", "reduce", "load_reduce"])
def test_cumulative(op1: str, command: str) -> None:
    src = normal(3, 9)
    start = {"reduce": 0.75, "load_reduce": -0.5}.get(
        command,
        {"multiply": 1.0, "maximum": -math.inf, "minimum": math.inf}.get(op1, 0.0),
    )
    registers = np.full((3, 1), 0.75, dtype=np.float32)
    attrs = {"op0": "add", "op1": op1, "imm0": 1.0, "imm1": -0.5, "reduce_cmd": command}
    given = run("tensor_scalar_cumulative", attrs, src=src, registers=registers)
    for row, found, kept in zip(src, given["dst"], given[REGISTERS], strict=True):
        state = start
        for value, result in zip(row, found, strict=True):
            state = ARITHMETIC[op1](float(value) + 1.0, state)
            assert float(result) == pytest.approx(state, rel=1e-5, abs=1e-6)
        assert kept[0] == found[-1]


@pytest.mark.parametrize("op0", ["multiply", "maximum", "less", "abs_min"])
@pytest.mark.parametrize("op1", ["add", "subtract", "logical_or"])
@pytest.mark.parametrize("reverse", [(False, False), (True, False), (False, True)])
def test_scans(op0: str, op1: str, reverse: tuple[bool, bool]) -> None:
    first, second = np.abs(normal(2, 6)) + np.float32(0.1), normal(2, 6, seed=1)
    attrs = {"op0": op0, "op1": op1, "reverse0": reverse[0], "reverse1": reverse[1]}
    given = run("tensor_tensor_scan", attrs | {"initial": 0.5}, data0=first, data1=second)["dst"]

    def pair(op: str, a: float, b: float, swap: bool) -> float:
        return ARITHMETIC[op](b, a) if swap else ARITHMETIC[op](a, b)

    for row in range(2):
        state = 0.5
        for i in range(6):
            value = pair(op0, float(first[row, i]), state, reverse[0])
            state = pair(op1, value, float(second[row, i]), reverse[1])
            assert float(given[row, i]) == pytest.approx(state, rel=1e-4, abs=1e-5)


def test_accumulators_live_on() -> None:
    data = normal(4, 8)
    total = data.astype(np.float64).sum(axis=1, keepdims=True)
    attrs = {"op": "copy", "reduce_op": "add"}
    reset = run("activation", attrs | {"reduce_cmd": "reset"}, data=data)
    assert np.all(reset[REGISTERS] == 0)
    first = run("activation", attrs | {"reduce_cmd": "reset_reduce"}, data=data)
    assert np.allclose(first[REGISTERS], total, atol=1e-6)
    again = run(
        "activation", attrs | {"reduce_cmd": "reduce"}, data=data, registers=first[REGISTERS]
    )
    assert np.allclose(again["reduce_res"], 2 * total, atol=1e-6)
    idle = run("activation", attrs | {"reduce_cmd": "idle"}, data=data, registers=again[REGISTERS])
    assert np.array_equal(idle["reduce_res"], again["reduce_res"])


def test_results_of_accumulators_may_be_negated() -> None:
    data = normal(4, 8)
    attrs = {"op0": "multiply", "operand0": 2.0, "reduce_op": "maximum"}
    attrs |= {"reduce_cmd": "load_reduce", "reduce_init": 1.5, "reduce_res_negate": True}
    given = run("tensor_scalar_reduce", attrs, data=data)
    expected = np.maximum((data * 2).max(axis=1, keepdims=True), 1.5)
    assert np.array_equal(given[REGISTERS], expected)
    assert np.array_equal(given["reduce_res"], -expected)


def test_activate2_and_exponential() -> None:
    data, column = normal(4, 8), normal(4, 1, seed=1)
    attrs = {"op": "prelu", "op0": "multiply", "op1": "subtract", "imm0": 2.0, "reverse1": True}
    attrs |= {"relu_param": 0.25, "reduce_op": "abs_max", "reduce_cmd": "reset_reduce"}
    given = run("activate2", attrs, data=data, imm1=column)
    value = column - data * 2
    expected = np.where(value > 0, value, value * np.float32(0.25))
    assert np.array_equal(given["dst"], expected)
    assert np.array_equal(np.abs(given["reduce_res"]), np.abs(expected).max(axis=1, keepdims=True))
    given = run("exponential", {"reduce_cmd": "reset_reduce"}, src=data, max_value=column)
    assert np.allclose(given["dst"], np.exp(data - column), rtol=1e-6)
    assert np.allclose(given["reduce_res"], given["dst"].sum(axis=1, keepdims=True), rtol=1e-6)


def test_two_rows_of_a_product_pass_at_once() -> None:
    stationary, moving = normal(16, 2, 3), normal(16, 2, 5, seed=1)
    given = run("nc_matmul", {"perf_mode": "double_row"}, stationary=stationary, moving=moving)
    assert np.allclose(given["dst"], np.einsum("kim,kin->mn", stationary, moving), rtol=1e-5)


def test_transpose_mode_moves_what_is_no_number() -> None:
    data = normal(8, 4)
    data[2, 1], data[3, 0] = np.inf, np.nan
    identity = np.eye(8, dtype=np.float32)
    attrs = {"is_transpose": True, "exact": True}
    given = run("nc_matmul", attrs, stationary=data, moving=identity)["dst"]
    assert np.array_equal(given, data.T, equal_nan=True)
    given = run("nc_matmul", attrs, stationary=identity, moving=data)["dst"]
    assert np.array_equal(given, data, equal_nan=True)
    with np.errstate(invalid="ignore"):
        plain = run("nc_matmul", stationary=data, moving=identity)["dst"]
    assert np.isnan(plain).sum() > 1


@pytest.mark.parametrize("value", [0, -1, 3, 2**31 - 1, -(2**31)])
def test_constants_of_integers_are_exact(value: int) -> None:
    rounded = ROUNDERS["int32"](run("memset", {"value": value})["dst"])
    assert rounded.tolist() == value


def test_transposes_flatten_all_free_dimensions() -> None:
    data = normal(6, 2, 3)
    assert np.array_equal(run("nc_transpose", data=data)["dst"], data.reshape(6, 6).T)


def test_rounding_of_results_is_that_of_the_destination() -> None:
    value = np.array([[1.00390625, 1.01171875]], dtype=np.float32)
    assert get_dtype("bf16").nbytes == 2
    assert ROUNDERS["bfloat16"](value).tolist() == [[1.0, 1.015625]]
