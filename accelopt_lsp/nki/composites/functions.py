"""Element-wise functions of one tile."""

from __future__ import annotations

from math import pi

from accelopt_lsp.nki.composites.spread import short_name
from accelopt_lsp.nki.dtypes import FLOAT32, DType, Kind, get_dtype
from accelopt_lsp.nki.instruction_calls.base import emit_tensor_scalar
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers
from accelopt_lsp.nki.operands import Engine

_ACTIVATIONS = (
    "exp log sqrt tanh sigmoid relu gelu gelu_dx gelu_apprx_tanh gelu_apprx_sigmoid "
    "gelu_apprx_sigmoid_dx silu silu_dx softplus mish erf erf_dx arctan sign square abs"
).split()

_TURN_HIGH = 6.28125
"""Upper bits of 2 pi: its multiples up to 2^15 are exact in float32."""
_TURN_LOW = 2 * pi - _TURN_HIGH


@lowers(*(f"nl.{name}" for name in _ACTIVATIONS))
def _activation_function(b: Builder) -> None:
    unary_activation(b, short_name(b))


def unary_activation(b: Builder, function: str) -> None:
    """One activation from ``x`` into the result."""
    x = b.tile("x")
    dst = b.returns(x.shape, b.dtype(x.dtype))
    b.emit("activation", Engine.SCALAR, {"op": function, "scale": 1.0}, dst=dst, data="x")


@lowers("nl.sin")
def _sin(b: Builder) -> None:
    """Range reduction, then the Scalar Engine's sine of -pi to pi."""
    x = b.tile("x")
    _sine(b, b.returns(x.shape, b.dtype(x.dtype)), 0.0)


@lowers("nl.cos")
def _cos(b: Builder) -> None:
    """The sine of a quarter turn more (assumed: no document says how it is lowered)."""
    x = b.tile("x")
    _sine(b, b.returns(x.shape, b.dtype(x.dtype)), pi / 2)


@lowers("nl.tan")
def _tan(b: Builder) -> None:
    """Sine times reciprocal of cosine (assumed: no document says how it is lowered)."""
    x = b.tile("x")
    sine = b.temporary(x.shape, FLOAT32)
    _sine(b, sine, 0.0)
    cosine = b.temporary(x.shape, FLOAT32)
    _sine(b, cosine, pi / 2)
    inverse = b.temporary(x.shape, FLOAT32)
    b.emit("reciprocal", None, {}, dst=inverse, data=cosine)
    dst = b.returns(x.shape, b.dtype(x.dtype))
    b.emit("tensor_tensor", Engine.VECTOR, {"op": "multiply"}, dst=dst, data1=sine, data2=inverse)


def _sine(b: Builder, dst: str, phase: float) -> None:
    """sin(x + phase) of any x.

    The range reduction is documented (nki.isa.activation says that nl.sin has one), its
    instructions are assumed: the number of turns, rounded by a cast to int32, is taken off in
    two parts, so that the rest is accurate to float32.
    """
    x = b.tile("x")
    turns = b.temporary(x.shape, _int32())
    emit_tensor_scalar(
        b,
        turns,
        "x",
        "multiply",
        1 / (2 * pi),
        op1="add",
        operand1=phase / (2 * pi),
        engine=Engine.VECTOR,
    )
    rest = "x"
    for part in (_TURN_HIGH, _TURN_LOW):
        less = b.temporary(x.shape, FLOAT32)
        b.emit(
            "scalar_tensor_tensor",
            None,
            {
                "op0": "multiply",
                "operand0": -part,
                "op1": "add",
                "reverse0": False,
                "reverse1": False,
            },
            dst=less,
            data=turns,
            operand1=rest,
        )
        rest = less
    attrs: dict[str, object] = {"op": "sin", "scale": 1.0}
    if phase:
        attrs["bias"] = phase
    b.emit("activation", Engine.SCALAR, attrs, dst=dst, data=rest)


def _int32() -> DType:
    return get_dtype("int32")


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


@lowers("nl.negative")
def _negative(b: Builder) -> None:
    x = b.tile("x")
    emit_tensor_scalar(b, b.returns(x.shape, b.dtype(x.dtype)), "x", "multiply", -1.0)


@lowers("nl.ceil", "nl.floor", "nl.trunc")
def _round(b: Builder) -> None:
    """No document says which instructions round: counted as one of unknown cost."""
    x = b.tile("x")
    dst = b.returns(x.shape, b.dtype(x.dtype))
    b.emit("round_to_integer", None, {"op": short_name(b)}, dst=dst, data="x")


@lowers("nl.invert")
def _invert(b: Builder) -> None:
    """Exclusive or with all ones."""
    x = b.tile("x")
    if x.dtype.is_float:
        raise LoweringError(f"nl.invert takes integers, got {x.dtype}", "R101")
    ones = -1 if x.dtype.kind is Kind.SIGNED else (1 << 8 * x.dtype.nbytes) - 1
    dst = b.returns(x.shape, b.dtype(x.dtype))
    emit_tensor_scalar(b, dst, "x", "bitwise_xor", ones, engine=Engine.VECTOR)


@lowers("nl.logical_not")
def _logical_not(b: Builder) -> None:
    """Current: exclusive or with 1, as documented. Legacy: comparison with 0 (assumed)."""
    x = b.tile("x")
    operator, number = ("equal", 0.0) if b.legacy else ("logical_xor", 1.0)
    dst = b.returns(x.shape, b.dtype(x.dtype))
    emit_tensor_scalar(b, dst, "x", operator, number, engine=Engine.VECTOR)
