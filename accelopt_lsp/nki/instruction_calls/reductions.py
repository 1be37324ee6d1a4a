"""Calls of reductions and scans."""

from __future__ import annotations

from accelopt_lsp.nki.instruction_calls.base import (
    emit_reduce,
    numbers,
    optional_tiles,
    reduce_axes,
    reduced_shape,
)
from accelopt_lsp.nki.lowering import Builder, lowers


@lowers("nisa.tensor_scalar_reduce")
def _tensor_scalar_reduce(b: Builder) -> None:
    data = b.tile("data")
    b.tile("reduce_res")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    attrs = {
        "op0": b.values["op0"],
        "reduce_op": b.values["reduce_op"],
        "reverse0": bool(b.values.get("reverse0")),
        **numbers(b, "operand0"),
    }
    operands = optional_tiles(b, "operand0")
    b.emit(
        "tensor_scalar_reduce",
        None,
        attrs,
        dst=dst,
        data="data",
        reduce_res="reduce_res",
        **operands,
    )


@lowers("nisa.tensor_tensor_scan")
def _tensor_tensor_scan(b: Builder) -> None:
    data = b.tile("data0")
    b.tile("data1")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    attrs = {
        "op0": b.values["op0"],
        "op1": b.values["op1"],
        "reverse0": bool(b.values.get("reverse0")),
        "reverse1": bool(b.values.get("reverse1")),
        **numbers(b, "initial"),
    }
    operands = optional_tiles(b, "initial")
    b.emit("tensor_tensor_scan", None, attrs, dst=dst, data0="data0", data1="data1", **operands)


@lowers("nisa.tensor_reduce")
def _tensor_reduce(b: Builder) -> None:
    data = b.tile("data")
    axes = reduce_axes(b.values["axis"], len(data.shape))
    shape = reduced_shape(data.shape, axes, bool(b.values.get("keepdims")))
    dst = b.destination(shape, b.dtype(data.dtype))
    emit_reduce(b, dst, "data", b.values["op"], axes, negate=bool(b.values.get("negate")))
