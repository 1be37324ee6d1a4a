"""Calls of reductions and scans."""

from __future__ import annotations

from accelopt_lsp.nki.dtypes import promote
from accelopt_lsp.nki.instruction_calls.base import (
    emit_reduce,
    numbers,
    optional_tiles,
    reads_registers,
    reduce_axes,
    reduced_shape,
)
from accelopt_lsp.nki.instructions.operators import UNARY_OPERATORS
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers


@lowers("nisa.tensor_scalar_reduce")
def _tensor_scalar_reduce(b: Builder) -> None:
    """Without ``reduce_res`` (NKI 0.6) the result stays in the engine's accumulators."""
    data = b.tile("data")
    if b.legacy:
        b.tile("reduce_res")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    attrs = {
        "op0": b.values["op0"],
        "reduce_op": b.values["reduce_op"],
        "reverse0": bool(b.values.get("reverse0")),
        **numbers(b, "operand0", "reduce_init"),
        **reads_registers(b, "reset_reduce"),
    }
    if b.values.get("reduce_res_negate"):
        attrs["reduce_res_negate"] = True
    operands = optional_tiles(b, "operand0", "reduce_init", "reduce_res")
    if attrs["op0"] not in UNARY_OPERATORS and not {"operand0"} & (operands.keys() | attrs.keys()):
        raise LoweringError(f"operand0 is missing: {attrs['op0']} needs one")
    b.emit("tensor_scalar_reduce", None, attrs, dst=dst, data="data", **operands)


@lowers("nisa.tensor_scalar_cumulative")
def _tensor_scalar_cumulative(b: Builder) -> None:
    b.tile("dst"), b.tile("src")
    attrs = {
        "op0": b.values["op0"],
        "op1": b.values["op1"],
        **numbers(b, "imm0", "imm1"),
        **reads_registers(b, "reset_reduce"),
    }
    operands = optional_tiles(b, "imm0", "imm1")
    b.emit("tensor_scalar_cumulative", None, attrs, dst="dst", src="src", **operands)


@lowers("nisa.tensor_tensor_scan")
def _tensor_tensor_scan(b: Builder) -> None:
    data, other = b.tile("data0"), b.tile("data1")
    dst = b.destination(data.shape, b.dtype(promote(data.dtype, other.dtype)))
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
    if 0 in axes:
        raise LoweringError(
            f"cannot reduce the partition axis 0 of {list(data.shape)}; multiply with ones on the "
            "tensor engine, or take tensor_partition_reduce",
            "R068",
        )
    shape = reduced_shape(data.shape, axes, bool(b.values.get("keepdims")))
    dst = b.destination(shape, b.dtype(data.dtype))
    emit_reduce(b, dst, "data", b.values["op"], axes, negate=bool(b.values.get("negate")))


@lowers("nisa.tensor_partition_reduce")
def _tensor_partition_reduce(b: Builder) -> None:
    data = b.tile("data")
    dst = b.destination((1, *data.shape[1:]), b.dtype(data.dtype))
    b.emit("tensor_partition_reduce", None, {"op": b.values["op"]}, dst=dst, data="data")


@lowers("nisa.bn_stats")
def _bn_stats(b: Builder) -> None:
    data = b.tile("data")
    dst = b.destination((data.partitions, 6), b.dtype(data.dtype))
    b.emit("bn_stats", None, {}, dst=dst, data="data")


@lowers("nisa.bn_aggr")
def _bn_aggr(b: Builder) -> None:
    data = b.tile("data")
    dst = b.destination((data.partitions, 2), b.dtype(data.dtype))
    b.emit("bn_aggr", None, {}, dst=dst, data="data")
