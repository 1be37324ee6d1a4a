"""Reductions and normalisations of ``nki.language``."""

from __future__ import annotations

from accelopt_lsp.nki.composites.spread import (
    short_name,
    spread_free,
    spread_partitions,
)
from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.instruction_calls.base import (
    emit_reduce,
    emit_tensor_scalar,
    reduce_axes,
    reduced_shape,
)
from accelopt_lsp.nki.lowering import Builder, lowers
from accelopt_lsp.nki.operands import Engine

_REDUCTIONS = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply"}


@lowers(*(f"nl.{n}" for n in _REDUCTIONS), "nl.mean")
def _reduction(b: Builder) -> None:
    name = short_name(b)
    x = b.tile("x")
    axes = reduce_axes(b.values["axis"], len(x.shape))
    shape = reduced_shape(x.shape, axes, bool(b.values.get("keepdims")))
    dtype = b.dtype(x.dtype)
    if name != "mean":
        emit_reduce(b, b.returns(shape, dtype), "x", _REDUCTIONS[name], axes)
        return
    total = b.temporary(shape, FLOAT32)
    emit_reduce(b, total, "x", "add", axes)
    count = x.elements // max(b.types[total].elements, 1)
    emit_tensor_scalar(b, b.returns(shape, dtype), total, "multiply", 1.0 / count)


@lowers("nl.softmax")
def _softmax(b: Builder) -> None:
    """Negated row maximum, exponential with running sum, reciprocal, scaling."""
    x = b.tile("x")
    axes = reduce_axes(b.values["axis"], len(x.shape))
    column = (x.partitions, 1)
    peak = b.temporary(column, FLOAT32)
    emit_reduce(b, peak, "x", "maximum", axes, negate=True)
    exponent = b.temporary(x.shape, FLOAT32)
    total = b.temporary(column, FLOAT32)
    b.emit(
        "activation",
        Engine.SCALAR,
        {"op": "exp", "scale": 1.0, "reduce_op": "add"},
        dst=exponent,
        data="x",
        bias=peak,
        reduce_res=total,
    )
    inverse = b.temporary(column, FLOAT32)
    b.emit("reciprocal", None, {}, dst=inverse, data=total)
    emit_tensor_scalar(b, b.returns(x.shape, b.dtype(x.dtype)), exponent, "multiply", inverse)


@lowers("nl.rms_norm")
def _rms_norm(b: Builder) -> None:
    """Square with running sum, mean plus epsilon, reciprocal root, scaling, weights."""
    x, w = b.tile("x"), b.tile("w")
    column = (x.partitions, 1)
    squares = b.temporary(x.shape, FLOAT32)
    total = b.temporary(column, FLOAT32)
    b.emit(
        "activation",
        Engine.SCALAR,
        {"op": "square", "scale": 1.0, "reduce_op": "add"},
        dst=squares,
        data="x",
        reduce_res=total,
    )
    mean = b.temporary(column, FLOAT32)
    emit_tensor_scalar(
        b,
        mean,
        total,
        "multiply",
        1.0 / float(b.values["n"]),
        op1="add",
        operand1=float(b.values["epsilon"]),
        engine=Engine.VECTOR,
    )
    scale = b.temporary(column, FLOAT32)
    b.emit("activation", Engine.SCALAR, {"op": "rsqrt", "scale": 1.0}, dst=scale, data=mean)
    normed = b.temporary(x.shape, FLOAT32)
    emit_tensor_scalar(b, normed, "x", "multiply", scale)
    dst = b.returns(x.shape, b.dtype(x.dtype))
    weights = spread_partitions(b, "w", x.partitions)
    if b.types[weights].free == 1 and w.free == 1:
        emit_tensor_scalar(b, dst, normed, "multiply", weights)
    else:
        weights = spread_free(b, weights, x.shape)
        b.emit(
            "tensor_tensor", Engine.VECTOR, {"op": "multiply"}, dst=dst, data1=normed, data2=weights
        )
