"""Calls of element-wise instructions."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.dtypes import FLOAT32, DType, promote
from accelopt_lsp.nki.instruction_calls.base import (
    default_copy_engine,
    default_tensor_scalar_engine,
    emit_tensor_scalar,
    numbers,
    operand_or_number,
    optional_tiles,
    reads_registers,
    wide_integer,
)
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.lowering import Builder, lowers
from accelopt_lsp.nki.operands import Buffer, Engine


@lowers("nisa.activation")
def _activation(b: Builder) -> None:
    """Reads the accumulators out where the call names ``reduce_res``."""
    attrs = reads_registers(b, "idle")
    if attrs["reduce_cmd"] != "idle" or b.is_tile("reduce_res"):
        attrs["reduce_op"] = b.values.get("reduce_op") or "add"
    elif b.values.get("reduce_op") is None:
        attrs = {}
    if attrs.get("reduce_op", "add") != "add":
        b.violations.append(
            Violation("R101", f"activation: reduce_op must be add, got {attrs['reduce_op']}")
        )
    if attrs.get("reduce_cmd") == "load_reduce":
        b.violations.append(
            Violation("R101", "activation has no reduce_cmd load_reduce; use reset_reduce")
        )
    _emit_activation(b, attrs)


@lowers("nisa.activation_reduce")
def _activation_reduce(b: Builder) -> None:
    """An activation that resets the accumulators first (reset_reduce)."""
    b.tile("reduce_res")
    op = b.values["reduce_op"]
    if op != "add" and b.target.generation < 3:
        b.violations.append(
            Violation(
                "R101",
                f"activation_reduce: reduce_op must be add on NeuronCore-v{b.target.generation}, "
                f"got {op}",
            )
        )
    _emit_activation(b, {"reduce_op": op, "reduce_cmd": "reset_reduce"})


def _emit_activation(b: Builder, reduction: dict[str, Any]) -> None:
    data = b.tile("data")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    attrs = {"op": b.values["op"], **numbers(b, "bias", "scale"), **reduction}
    operands = optional_tiles(b, "bias", "scale", "reduce_res")
    _check_bias(b, attrs.get("bias"))
    b.emit("activation", Engine.SCALAR, attrs, dst=dst, data="data", **operands)


def _check_bias(b: Builder, number: Any) -> None:
    """A bias is a vector; NeuronCore-v3 takes a number as well, in the current dialect."""
    if number and (b.legacy or b.target.generation < 3):
        where = "here" if b.legacy else f"on NeuronCore-v{b.target.generation}"
        b.violations.append(
            Violation(
                "R002",
                f"activation: bias must be a [P, 1] tile {where}, got the number {number}; fill a "
                "tile with memset",
                "bias",
            )
        )
    bias = b.types.get("bias")
    if b.legacy and bias is not None and not (bias.dtype.is_float and bias.dtype.nbytes >= 2):
        b.violations.append(
            Violation(
                "R002",
                f"activation: bias must be float32, float16 or bfloat16, it is {bias.dtype}",
                "bias",
            )
        )


@lowers("nisa.activate2")
def _activate2(b: Builder) -> None:
    data = b.tile("data")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    attrs = {
        "op": b.values["op"],
        "op0": b.values.get("op0") or "bypass",
        "op1": b.values.get("op1") or "bypass",
        "reverse0": bool(b.values.get("reverse0")),
        "reverse1": bool(b.values.get("reverse1")),
        **numbers(b, "imm0", "imm1", "relu_param"),
    }
    command = reads_registers(b, "idle")
    if command["reduce_cmd"] != "idle" or b.is_tile("reduce_res"):
        attrs |= command | {"reduce_op": b.values.get("reduce_op") or "add"}
    operands = optional_tiles(b, "imm0", "imm1", "relu_param", "reduce_res")
    b.emit("activate2", None, attrs, dst=dst, data="data", **operands)


@lowers("nisa.exponential")
def _exponential(b: Builder) -> None:
    src = b.tile("src")
    dst = b.destination(src.shape, b.dtype(src.dtype))
    attrs = {**numbers(b, "max_value", "reduce_init"), **reads_registers(b, "idle")}
    operands = optional_tiles(b, "max_value", "reduce_init", "reduce_res")
    b.emit("exponential", None, attrs, dst=dst, src="src", **operands)


def _wider(first: DType, second: DType, *, legacy: bool) -> DType:
    """Result type of two tiles: whichever input has the higher precision (legacy)."""
    if legacy:
        return promote(first, second)
    return first if first.is_float else second


@lowers("nisa.tensor_tensor")
def _tensor_tensor(b: Builder) -> None:
    """Power, and arithmetic on 32-bit integers, default to GpSimd.

    Integers in PSUM stay on the Vector Engine, since GpSimd reaches no PSUM. Legacy sends only
    sums, differences and products of integers there.
    """
    first, second = b.tile("data1"), b.tile("data2")
    dst = b.destination(first.shape, b.dtype(_wider(first.dtype, second.dtype, legacy=b.legacy)))
    op = b.values["op"]
    tiles = (b.types[dst], first, second)
    default = Engine.VECTOR
    if op == "power" or (
        op in ("add", "subtract", "multiply", *(() if b.legacy else _EXACT))
        and all(wide_integer(tile.dtype) and tile.buffer is Buffer.SBUF for tile in tiles)
    ):
        default = Engine.GPSIMD
    b.emit("tensor_tensor", b.engine(default), {"op": op}, dst=dst, data1="data1", data2="data2")


_EXACT = (
    "maximum",
    "minimum",
    "equal",
    "not_equal",
    "greater_equal",
    "greater",
    "less_equal",
    "less",
    "logical_and",
    "logical_or",
    "logical_xor",
)
"""Further operators that the current dialect runs on 32-bit integers as they are."""


@lowers("nisa.tensor_scalar")
def _tensor_scalar(b: Builder) -> None:
    data = b.tile("data")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    op0, op1 = b.values["op0"], b.values.get("op1")
    reverse0, reverse1 = bool(b.values.get("reverse0")), bool(b.values.get("reverse1"))
    operators = (op0,) if op1 is None else (op0, op1)
    default = default_tensor_scalar_engine(b, data, operators)
    if default is Engine.GPSIMD and b.types[dst].buffer is Buffer.PSUM:
        default = Engine.VECTOR
    emit_tensor_scalar(
        b,
        dst,
        "data",
        op0,
        operand_or_number(b, "operand0"),
        reverse0=reverse0,
        op1=op1,
        operand1=operand_or_number(b, "operand1"),
        reverse1=reverse1,
        engine=b.engine(default),
    )


@lowers("nisa.scalar_tensor_tensor")
def _scalar_tensor_tensor(b: Builder) -> None:
    data = b.tile("data")
    b.tile("operand1")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    attrs = {
        "op0": b.values["op0"],
        "op1": b.values["op1"],
        "reverse0": bool(b.values.get("reverse0")),
        "reverse1": bool(b.values.get("reverse1")),
        **numbers(b, "operand0"),
    }
    operands = optional_tiles(b, "operand0")
    b.emit(
        "scalar_tensor_tensor", None, attrs, dst=dst, data="data", operand1="operand1", **operands
    )


@lowers("nisa.tensor_copy", "nisa.tensor_copy_dynamic_src", "nisa.tensor_copy_dynamic_dst")
def _tensor_copy(b: Builder) -> None:
    """The Scalar Engine of NeuronCore-v2 copies through float32 (nisa.tensor_copy)."""
    src = b.tile("src")
    dst = b.destination(src.shape, b.dtype(src.dtype))
    engine = b.engine(default_copy_engine(b, src))
    attrs = {}
    if engine is Engine.SCALAR and b.target.generation < 3 and wide_integer(src.dtype):
        attrs["through"] = "float32"
    b.emit("tensor_copy", engine, attrs, dst=dst, src="src")


@lowers("nisa.reciprocal")
def _reciprocal(b: Builder) -> None:
    data = b.tile("data")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    b.emit("reciprocal", None, {}, dst=dst, data="data")


@lowers("nisa.memset")
def _memset(b: Builder) -> None:
    if b.legacy:
        dst = b.returns(tuple(b.values["shape"]), b.dtype(FLOAT32))
    else:
        b.tile("dst")
        dst = "dst"
    b.emit("memset", b.engine(Engine.VECTOR), {"value": b.values["value"]}, dst=dst)
