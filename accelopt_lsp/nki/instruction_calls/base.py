"""What the rules of several instructions share: default engines, scalars, axes."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.dtypes import DType, Kind
from accelopt_lsp.nki.instructions.operators import SCALAR_ENGINE_FORMS, UNARY_OPERATORS
from accelopt_lsp.nki.lowering import Builder, LoweringError
from accelopt_lsp.nki.operands import Buffer, Engine, OperandType

_GPSIMD_OPERATORS = frozenset({"rsqrt", "power"})


def name_of(value: Any, default: str) -> str:
    """Short name of an enum member that a call names (``nisa.reduce_cmd.reduce``: ``reduce``)."""
    return default if value is None else str(value).rpartition(".")[2]


def wide_integer(dtype: DType) -> bool:
    """A 32-bit integer, which float32 cannot represent exactly."""
    return dtype.nbytes == 4 and dtype.kind in (Kind.SIGNED, Kind.UNSIGNED)


def default_copy_engine(builder: Builder, source: OperandType) -> Engine:
    """Engine of a copy that names none.

    Legacy: the Scalar Engine copies, out of PSUM (published profiles show an idle Vector
    Engine in plain matrix products) and within SBUF (rope), tiny tiles apart. Current:
    nl.copy is documented to use Vector. The Scalar Engine of NeuronCore-v2 cannot copy 32-bit
    integers exactly, so they go to Vector.
    """
    if wide_integer(source.dtype):
        return Engine.VECTOR
    if builder.legacy and (source.buffer is Buffer.PSUM or source.free > 1):
        return Engine.SCALAR
    return Engine.VECTOR


def default_tensor_scalar_engine(
    builder: Builder, data: OperandType, operators: tuple[str, ...]
) -> Engine:
    """Engine of a tensor_scalar that names none.

    Legacy: multiply and add run on Scalar, whichever side the scalar is on (published
    profiles of silu and adamw), tiny tiles on Vector. Only GpSimd has rsqrt (next to the Scalar
    Engine's less exact one) and power, but it reaches no PSUM.
    """
    if data.buffer is Buffer.SBUF and not _GPSIMD_OPERATORS.isdisjoint(operators):
        return Engine.GPSIMD
    if builder.legacy and operators in SCALAR_ENGINE_FORMS and data.free > 1:
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
    for number, (op, operand) in enumerate(((op0, operand0), (op1, operand1))):
        if operand is None and op is not None and op not in UNARY_OPERATORS:
            raise LoweringError(f"operand{number} is missing: {op} needs one")
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


def reads_registers(builder: Builder, default: str) -> dict[str, Any]:
    """The call's ``reduce_cmd``, which says what becomes of an engine's accumulators."""
    return {"reduce_cmd": name_of(builder.values.get("reduce_cmd"), default)}


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
