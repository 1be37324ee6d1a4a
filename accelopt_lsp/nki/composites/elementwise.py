"""Element-wise functions of ``nki.language``."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.composites.spread import (
    broadcast_shape,
    short_name,
    spread_free,
    spread_partitions,
)
from accelopt_lsp.nki.dtypes import FLOAT32, promote
from accelopt_lsp.nki.instruction_calls.base import (
    checked_number,
    emit_tensor_scalar,
)
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers
from accelopt_lsp.nki.operands import Engine

_ACTIVATIONS = (
    "exp log sqrt tanh sigmoid relu gelu gelu_dx gelu_apprx_tanh gelu_apprx_sigmoid silu "
    "silu_dx softplus mish erf erf_dx arctan sign square"
).split()


@lowers(*(f"nl.{name}" for name in _ACTIVATIONS))
def _activation_function(b: Builder) -> None:
    unary_activation(b, short_name(b))


def unary_activation(b: Builder, function: str) -> None:
    x = b.tile("x")
    dst = b.returns(x.shape, b.dtype(x.dtype))
    b.emit("activation", Engine.SCALAR, {"op": function, "scale": 1.0}, dst=dst, data="x")


@lowers("nl.rsqrt")
def _rsqrt(b: Builder) -> None:
    """Scalar Engine in the legacy dialect; GpSimd since NKI 0.5."""
    x = b.tile("x")
    if b.legacy:
        unary_activation(b, "rsqrt")
        return
    dst = b.returns(x.shape, b.dtype(x.dtype))
    emit_tensor_scalar(b, dst, "x", "rsqrt", 0.0, engine=Engine.GPSIMD)


@lowers("nl.reciprocal")
def _reciprocal(b: Builder) -> None:
    x = b.tile("x")
    b.emit("reciprocal", None, {}, dst=b.returns(x.shape, b.dtype(x.dtype)), data="x")


@lowers("nl.abs")
def _abs(b: Builder) -> None:
    unary_activation(b, "abs")


@lowers("nl.negative")
def _negative(b: Builder) -> None:
    x = b.tile("x")
    emit_tensor_scalar(b, b.returns(x.shape, b.dtype(x.dtype)), "x", "multiply", -1.0)


@lowers(
    *(f"nl.{n}" for n in ("add", "subtract", "multiply", "maximum", "minimum", "power")),
    *(f"nl.{n}" for n in ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]),
)
def _binary(b: Builder) -> None:
    """tensor_scalar against a number or a [P, 1] tile, tensor_tensor otherwise."""
    operator = short_name(b)
    if not b.is_tile("x") and not b.is_tile("y"):
        raise LoweringError(f"nl.{operator} needs at least one tile")
    if not b.is_tile("y"):
        with_scalar(b, operator, "x", b.values["y"], reverse=False)
    elif not b.is_tile("x"):
        with_scalar(b, operator, "y", b.values["x"], reverse=True)
    else:
        two_tiles(b, operator)


def with_scalar(b: Builder, operator: str, tile: str, number: Any, *, reverse: bool) -> None:
    x = b.tile(tile)
    dst = b.returns(x.shape, b.dtype(x.dtype))
    emit_tensor_scalar(b, dst, tile, operator, checked_number(number), reverse0=reverse)


def two_tiles(b: Builder, operator: str) -> None:
    x, y = b.tile("x"), b.tile("y")
    shape = broadcast_shape(x.shape, y.shape)
    dst = b.returns(shape, b.dtype(promote(x.dtype, y.dtype)))
    left = spread_partitions(b, "x", shape[0])
    right = spread_partitions(b, "y", shape[0])
    free = b.types[dst].free
    if free > 1 and b.types[right].free == 1:
        emit_tensor_scalar(b, dst, left, operator, right)
    elif free > 1 and b.types[left].free == 1:
        emit_tensor_scalar(b, dst, right, operator, left, reverse0=True)
    else:
        left, right = spread_free(b, left, shape), spread_free(b, right, shape)
        engine = Engine.GPSIMD if operator == "power" else Engine.VECTOR
        b.emit("tensor_tensor", engine, {"op": operator}, dst=dst, data1=left, data2=right)


@lowers("nl.divide")
def _divide(b: Builder) -> None:
    """No instruction divides: multiply by the reciprocal."""
    if b.is_tile("x") and not b.is_tile("y"):
        number = float(b.values["y"])
        if number == 0:
            raise LoweringError("nl.divide by the constant 0")
        with_scalar(b, "multiply", "x", 1.0 / number, reverse=False)
        return
    y = b.tile("y")
    inverse = b.temporary(y.shape, FLOAT32 if y.dtype.nbytes == 4 else y.dtype)
    b.emit("reciprocal", None, {}, dst=inverse, data="y")
    if not b.is_tile("x"):
        dst = b.returns(y.shape, b.dtype(y.dtype))
        emit_tensor_scalar(b, dst, inverse, "multiply", checked_number(b.values["x"]))
        return
    x = b.tile("x")
    shape = broadcast_shape(x.shape, y.shape)
    dst = b.returns(shape, b.dtype(promote(x.dtype, y.dtype)))
    left = spread_partitions(b, "x", shape[0])
    right = spread_partitions(b, inverse, shape[0])
    if b.types[dst].free > 1 and b.types[right].free == 1:
        emit_tensor_scalar(b, dst, left, "multiply", right)
    else:
        left, right = spread_free(b, left, shape), spread_free(b, right, shape)
        b.emit("tensor_tensor", Engine.VECTOR, {"op": "multiply"}, dst=dst, data1=left, data2=right)
