"""What the rules of several instructions share: default engines, scalars, axes."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.lowering import Builder, LoweringError
from accelopt_lsp.nki.operands import Buffer, Engine, OperandType

_SCALAR_ENGINE_FORMS = frozenset({("multiply",), ("add",), ("multiply", "add")})
"""Operators of tensor_scalar that the Scalar Engine can run (nisa.tensor_scalar)."""


def default_copy_engine(builder: Builder, source: OperandType) -> Engine:
    """Engine of a copy that names none.

    Legacy: the Scalar Engine copies, out of PSUM (published profiles show an idle Vector
    Engine in plain matrix products) and within SBUF (rope), tiny tiles apart. Current:
    nl.copy is documented to use Vector.
    """
    if builder.legacy and (source.buffer is Buffer.PSUM or source.free > 1):
        return Engine.SCALAR
    return Engine.VECTOR


def default_tensor_scalar_engine(
    builder: Builder, data: OperandType, operators: tuple[str, ...]
) -> Engine:
    """Engine of a tensor_scalar that names none.

    Legacy: multiply and add run on Scalar, whichever side the scalar is on (published
    profiles of silu and adamw), tiny tiles on Vector.
    """
    if builder.legacy and operators in _SCALAR_ENGINE_FORMS and data.free > 1:
        return Engine.SCALAR
    return Engine.VECTOR


def emit_tensor_scalar(
    builder: Builder,
    dst: str,
    data: str,
    op0: str,
    operand0: Any,
    *,
    reverse0: bool = False,
    op1: str | None = None,
    operand1: Any = None,
    reverse1: bool = False,
    engine: Engine | None = None,
) -> None:
    """One tensor_scalar; operands are numbers, or slots (strings) of ``[P, 1]`` tiles."""
    operators = (op0,) if op1 is None else (op0, op1)
    attrs: dict[str, Any] = {"op0": op0, "reverse0": bool(reverse0)}
    operands = {"dst": dst, "data": data}
    for role, value in (("operand0", operand0), ("operand1", operand1)):
        if isinstance(value, str):
            operands[role] = value
        elif value is not None:
            attrs[role] = value
    if op1 is not None:
        attrs |= {"op1": op1, "reverse1": bool(reverse1)}
    chosen = engine or default_tensor_scalar_engine(builder, builder.types[data], operators)
    builder.emit("tensor_scalar", chosen, attrs, **operands)


def checked_number(value: Any) -> Any:
    """A scalar operand.

    Raises:
        LoweringError: neither a tile nor a number.
    """
    if not hasattr(value, "__float__"):
        raise LoweringError(f"expected a tile or a number, got {value!r}")
    return value


def operand_or_number(builder: Builder, name: str) -> Any:
    """A parameter that may be a tile (its slot), a number (its value), or left out."""
    if builder.is_tile(name):
        return name
    value = builder.values.get(name)
    return None if value is None else checked_number(value)


def optional_tiles(builder: Builder, *names: str) -> dict[str, str]:
    return {n: n for n in names if builder.is_tile(n)}


def numbers(builder: Builder, *names: str) -> dict[str, Any]:
    return {
        n: builder.values[n]
        for n in names
        if builder.values.get(n) is not None and not builder.is_tile(n)
    }


def reduce_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """Axes of a reduction, sorted and counted from 0.

    Raises:
        LoweringError: not an axis of a tile of that rank.
    """
    given = axis if isinstance(axis, tuple) else (axis,)
    if not all(isinstance(a, int) and -rank <= a < rank for a in given):
        raise LoweringError(f"axis {axis!r} is not an axis of a tile with {rank} dimensions")
    return tuple(sorted(a % rank for a in given))


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Shape after reducing; an on-chip tile keeps at least one free dimension."""
    if keepdims:
        return tuple(1 if i in axes else s for i, s in enumerate(shape))
    kept = tuple(s for i, s in enumerate(shape) if i not in axes)
    return kept if len(kept) > 1 else (*kept, 1)


def emit_reduce(
    b: Builder, dst: str, data: str, op: str, axes: tuple[int, ...], *, negate: bool = False
) -> None:
    b.emit("tensor_reduce", None, {"op": op, "axis": axes, "negate": negate}, dst=dst, data=data)
