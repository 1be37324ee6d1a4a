"""Calls of element-wise instructions."""

from __future__ import annotations

from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.instruction_calls.base import (
    default_copy_engine,
    default_tensor_scalar_engine,
    emit_tensor_scalar,
    numbers,
    operand_or_number,
    optional_tiles,
)
from accelopt_lsp.nki.lowering import Builder, lowers
from accelopt_lsp.nki.operands import Engine


@lowers("nisa.activation", "nisa.activation_reduce")
def _activation(b: Builder) -> None:
    data = b.tile("data")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    attrs = {"op": b.values["op"], **numbers(b, "bias", "scale", "reduce_op")}
    operands = optional_tiles(b, "bias", "scale", "reduce_res")
    if b.is_tile("reduce_res"):
        attrs.setdefault("reduce_op", "add")
    b.emit("activation", Engine.SCALAR, attrs, dst=dst, data="data", **operands)


@lowers("nisa.tensor_tensor")
def _tensor_tensor(b: Builder) -> None:
    first, second = b.tile("data1"), b.tile("data2")
    dtype = b.dtype(first.dtype if first.dtype.is_float else second.dtype)
    dst = b.destination(first.shape, dtype)
    default = Engine.GPSIMD if b.values["op"] == "power" else Engine.VECTOR
    b.emit(
        "tensor_tensor",
        b.engine(default),
        {"op": b.values["op"]},
        dst=dst,
        data1="data1",
        data2="data2",
    )


@lowers("nisa.tensor_scalar")
def _tensor_scalar(b: Builder) -> None:
    data = b.tile("data")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    op0, op1 = b.values["op0"], b.values.get("op1")
    reverse0, reverse1 = bool(b.values.get("reverse0")), bool(b.values.get("reverse1"))
    operators = (op0,) if op1 is None else (op0, op1)
    default = default_tensor_scalar_engine(b, data, operators)
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


@lowers("nisa.tensor_copy")
def _tensor_copy(b: Builder) -> None:
    src = b.tile("src")
    dst = b.destination(src.shape, b.dtype(src.dtype))
    b.emit("tensor_copy", b.engine(default_copy_engine(b, src)), {}, dst=dst, src="src")


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
