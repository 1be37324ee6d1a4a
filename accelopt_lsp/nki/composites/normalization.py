"""Normalisations of ``nki.language``: softmax and rms_norm."""

from __future__ import annotations

from accelopt_lsp.nki.composites.spread import spread_free, spread_partitions
from accelopt_lsp.nki.dtypes import FLOAT32, DType, find_dtype
from accelopt_lsp.nki.instruction_calls.base import (
    emit_reduce,
    emit_tensor_scalar,
    reduce_axes,
    reduced_shape,
)
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers
from accelopt_lsp.nki.operands import Engine


def _result_dtype(b: Builder) -> DType:
    """``dtype=``, else ``compute_dtype=`` (documented to do the same), else that of x."""
    computed = b.values.get("compute_dtype")
    default = b.tile("x").dtype
    if computed is not None:
        found = computed if isinstance(computed, DType) else find_dtype(str(computed))
        if found is None:
            raise LoweringError(f"unknown data type {computed!r}")
        default = found
    return b.dtype(default)


def _scaled(b: Builder, dst: str, data: str, factor: str, operator: str = "multiply") -> None:
    """``data operator factor``, where the factor has one value a reduced group."""
    if b.types[factor].free == 1:
        emit_tensor_scalar(b, dst, data, operator, factor)
        return
    factor = spread_free(b, factor, b.types[data].shape)
    b.emit("tensor_tensor", Engine.VECTOR, {"op": operator}, dst=dst, data1=data, data2=factor)


@lowers("nl.softmax")
def _softmax(b: Builder) -> None:
    """Negated maximum, exponential with running sum, reciprocal, scaling.

    Where groups within a partition are normalised apart, maximum and sum are instructions of
    their own.
    """
    x = b.tile("x")
    axes = reduce_axes(b.values["axis"], len(x.shape))
    dtype = _result_dtype(b)
    kept = reduced_shape(x.shape, axes, keepdims=True)
    exponent, total = _exponentials(b, axes, kept)
    inverse = b.temporary(b.types[total].shape, FLOAT32)
    b.emit("reciprocal", None, {}, dst=inverse, data=total)
    _scaled(b, b.returns(x.shape, dtype), exponent, inverse)


def _exponentials(b: Builder, axes: tuple[int, ...], kept: tuple[int, ...]) -> tuple[str, str]:
    """Slots of exp(x - max) and of its sum over the axes."""
    x = b.tile("x")
    column = (x.partitions, 1)
    one = kept[1:] == (1,) * (len(kept) - 1)
    peak = b.temporary(column if one else kept, FLOAT32)
    emit_reduce(b, peak, "x", "maximum", axes, negate=one)
    exponent = b.temporary(x.shape, FLOAT32)
    total = b.temporary(column if one else kept, FLOAT32)
    if one:
        b.emit(
            "activation",
            Engine.SCALAR,
            {"op": "exp", "scale": 1.0, "reduce_op": "add"},
            dst=exponent,
            data="x",
            bias=peak,
            reduce_res=total,
        )
        return exponent, total
    shifted = b.temporary(x.shape, FLOAT32)
    _scaled(b, shifted, "x", peak, "subtract")
    b.emit("activation", Engine.SCALAR, {"op": "exp", "scale": 1.0}, dst=exponent, data=shifted)
    emit_reduce(b, total, exponent, "add", axes)
    return exponent, total


@lowers("nl.rms_norm")
def _rms_norm(b: Builder) -> None:
    """Square with running sum, mean plus epsilon, reciprocal root, scaling, weights."""
    x, w = b.tile("x"), b.tile("w")
    axes = reduce_axes(b.values["axis"], len(x.shape))
    dtype = _result_dtype(b)
    kept = reduced_shape(x.shape, axes, keepdims=True)
    one = kept[1:] == (1,) * (len(kept) - 1)
    column = (x.partitions, 1) if one else kept
    squares = b.temporary(x.shape, FLOAT32)
    total = b.temporary(column, FLOAT32)
    square = {"op": "square", "scale": 1.0}
    if one:
        square["reduce_op"] = "add"
        b.emit("activation", Engine.SCALAR, square, dst=squares, data="x", reduce_res=total)
    else:
        b.emit("activation", Engine.SCALAR, square, dst=squares, data="x")
        emit_reduce(b, total, squares, "add", axes)
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
    _scaled(b, normed, "x", scale)
    dst = b.returns(x.shape, dtype)
    weights = spread_partitions(b, "w", x.partitions)
    if b.types[weights].free == 1 and w.free == 1:
        emit_tensor_scalar(b, dst, normed, "multiply", weights)
        return
    weights = spread_free(b, weights, x.shape)
    b.emit("tensor_tensor", Engine.VECTOR, {"op": "multiply"}, dst=dst, data1=normed, data2=weights)
