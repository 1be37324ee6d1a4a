"""Lowering of ``nki.isa`` calls: mostly one call, one instruction."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers
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


def _optional_tiles(builder: Builder, *names: str) -> dict[str, str]:
    return {n: n for n in names if builder.is_tile(n)}


def _numbers(builder: Builder, *names: str) -> dict[str, Any]:
    return {
        n: builder.values[n]
        for n in names
        if builder.values.get(n) is not None and not builder.is_tile(n)
    }


@lowers("nisa.nc_matmul")
def _nc_matmul(b: Builder) -> None:
    stationary, moving = b.tile("stationary"), b.tile("moving")
    is_transpose = bool(b.values.get("is_transpose"))
    dst = b.destination((stationary.free, moving.free), FLOAT32, Buffer.PSUM)
    attrs = {"is_transpose": is_transpose, "accumulate": b.values.get("accumulate")}
    b.emit("nc_matmul", None, attrs, dst=dst, stationary="stationary", moving="moving")


@lowers("nisa.nc_transpose")
def _nc_transpose(b: Builder) -> None:
    data = b.tile("data")
    engine = b.engine(Engine.TENSOR)
    if engine is Engine.TENSOR:
        # NeuronCore-v2 writes PSUM in fp32 only; later cores keep the input type.
        dtype = b.dtype(FLOAT32 if b.target.generation < 3 and data.dtype.is_float else data.dtype)
        buffer = Buffer.PSUM
    else:
        dtype, buffer = b.dtype(data.dtype), Buffer.SBUF
    dst = b.destination((data.free, data.partitions), dtype, buffer)
    b.emit("nc_transpose", engine, {"engine": engine}, dst=dst, data="data")


@lowers("nisa.activation", "nisa.activation_reduce")
def _activation(b: Builder) -> None:
    data = b.tile("data")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    attrs = {"op": b.values["op"], **_numbers(b, "bias", "scale", "reduce_op")}
    operands = _optional_tiles(b, "bias", "scale", "reduce_res")
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
        **_numbers(b, "operand0"),
    }
    operands = _optional_tiles(b, "operand0")
    b.emit(
        "scalar_tensor_tensor", None, attrs, dst=dst, data="data", operand1="operand1", **operands
    )


@lowers("nisa.tensor_scalar_reduce")
def _tensor_scalar_reduce(b: Builder) -> None:
    data = b.tile("data")
    b.tile("reduce_res")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    attrs = {
        "op0": b.values["op0"],
        "reduce_op": b.values["reduce_op"],
        "reverse0": bool(b.values.get("reverse0")),
        **_numbers(b, "operand0"),
    }
    operands = _optional_tiles(b, "operand0")
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
        **_numbers(b, "initial"),
    }
    operands = _optional_tiles(b, "initial")
    b.emit("tensor_tensor_scan", None, attrs, dst=dst, data0="data0", data1="data1", **operands)


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


@lowers("nisa.tensor_reduce")
def _tensor_reduce(b: Builder) -> None:
    data = b.tile("data")
    axes = reduce_axes(b.values["axis"], len(data.shape))
    shape = reduced_shape(data.shape, axes, bool(b.values.get("keepdims")))
    dst = b.destination(shape, b.dtype(data.dtype))
    emit_reduce(b, dst, "data", b.values["op"], axes, negate=bool(b.values.get("negate")))


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


@lowers("nisa.dma_copy")
def _dma_copy(b: Builder) -> None:
    b.tile("dst"), b.tile("src")
    b.emit("dma_copy", None, {}, dst="dst", src="src")


@lowers("nisa.dma_transpose")
def _dma_transpose(b: Builder) -> None:
    src = b.tile("src")
    axes = b.values.get("axes") or tuple(reversed(range(len(src.shape))))
    shape = tuple(src.shape[a] for a in axes)
    dst = b.destination(shape, b.dtype(src.dtype))
    b.emit("dma_transpose", None, {"axes": tuple(axes)}, dst=dst, src="src")
