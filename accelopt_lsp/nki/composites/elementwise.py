"""Element-wise operators of two tiles, or of a tile and a number."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.composites.spread import (
    broadcast_shape,
    short_name,
    spread_free,
    spread_partitions,
)
from accelopt_lsp.nki.dtypes import FLOAT32, DType, get_dtype, promote
from accelopt_lsp.nki.instruction_calls.base import (
    checked_number,
    default_copy_engine,
    default_tensor_scalar_engine,
    emit_tensor_scalar,
)
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers
from accelopt_lsp.nki.operands import Buffer, Engine, Number

_ARITHMETIC = ("add", "subtract", "multiply", "maximum", "minimum", "power", "abs_max", "abs_min")
_COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_LOGICAL = ("logical_and", "logical_or", "logical_xor")
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")


@lowers(*(f"nl.{n}" for n in (*_ARITHMETIC, *_COMPARE, *_LOGICAL, *_BITS)))
def _binary(b: Builder) -> None:
    """tensor_scalar against a number or a [P, 1] tile, tensor_tensor otherwise."""
    operator = short_name(b)
    if operator == "power" and not b.legacy and not b.is_tile("y"):
        b.notes.append("nl.power needs a tile as exponent on hardware; a number is simulated")
    _operator(b, operator)


def _operator(b: Builder, operator: str) -> None:
    if not b.is_tile("x") and not b.is_tile("y"):
        raise LoweringError(f"nl.{operator} needs at least one tile")
    if not b.is_tile("y"):
        with_scalar(b, operator, "x", b.values["y"], reverse=False)
    elif not b.is_tile("x"):
        with_scalar(b, operator, "y", b.values["x"], reverse=True)
    else:
        two_tiles(b, operator)


def weak_dtype(b: Builder, tile: DType, number: Any) -> DType:
    """Data type of a tile combined with a number.

    Legacy: a plain number counts as uint8, int32 or float32 (a NumPy scalar as its own type)
    and the types are promoted. Current: the tile's.
    """
    if not b.legacy:
        return tile
    if isinstance(number, Number):
        return promote(tile, number.dtype)
    if isinstance(number, bool):
        return promote(tile, get_dtype("uint8"))
    return promote(tile, get_dtype("int32") if isinstance(number, int) else FLOAT32)


def plain(number: Any) -> Any:
    """The number itself.

    Raises:
        LoweringError: it is none.
    """
    return checked_number(number.value if isinstance(number, Number) else number)


def _engine(b: Builder, operator: str, data: str, *, scalar: bool) -> Engine:
    """Only GpSimd raises to powers."""
    if operator == "power":
        return Engine.GPSIMD
    if scalar:
        return default_tensor_scalar_engine(b, b.types[data], (operator,))
    return Engine.VECTOR


def out_of_psum(b: Builder, slot: str) -> str:
    """A copy in SBUF of what is in PSUM, which the legacy compiler makes where it must."""
    given = b.types[slot]
    if not b.legacy or given.buffer is not Buffer.PSUM:
        return slot
    copied = b.temporary(given.shape, given.dtype)
    b.emit("tensor_copy", default_copy_engine(b, given), {}, dst=copied, src=slot)
    return copied


def with_scalar(b: Builder, operator: str, tile: str, number: Any, *, reverse: bool) -> None:
    """``tile operator number`` into the result."""
    x = b.tile(tile)
    dst = b.returns(x.shape, b.dtype(weak_dtype(b, x.dtype, number)))
    data = out_of_psum(b, tile) if operator == "power" else tile
    emit_tensor_scalar(
        b,
        dst,
        data,
        operator,
        plain(number),
        reverse0=reverse,
        engine=_engine(b, operator, data, scalar=True),
    )


def common_shape(b: Builder) -> tuple[int, ...]:
    """Shape of ``x`` combined with ``y``.

    Legacy broadcasts like NumPy. The current dialect wants equal shapes since NKI 0.3; a
    [P, 1] operand is what tensor_scalar takes.

    Raises:
        LoweringError: they do not go together.
    """
    x, y = b.tile("x"), b.tile("y")
    if b.legacy or x.shape == y.shape:
        return broadcast_shape(x.shape, y.shape)
    if x.partitions == y.partitions and 1 in (x.free, y.free):
        return x.shape if y.free == 1 else y.shape
    raise LoweringError(
        f"{b.api} needs tiles of equal shape or a [P, 1] tile, got {list(x.shape)} and "
        f"{list(y.shape)}; broadcast the smaller one first",
        "R027",
    )


def two_tiles(b: Builder, operator: str) -> None:
    """``x operator y`` into the result, broadcast where the dialect does that."""
    shape = common_shape(b)
    x, y = b.tile("x"), b.tile("y")
    dst = b.returns(shape, b.dtype(promote(x.dtype, y.dtype)))
    left = spread_partitions(b, "x", shape[0])
    right = spread_partitions(b, "y", shape[0])
    if operator == "power":
        left, right = out_of_psum(b, left), out_of_psum(b, right)
    combine(b, dst, left, right, operator)


def combine(b: Builder, dst: str, left: str, right: str, operator: str) -> None:
    """One instruction for two tiles of equal partitions; size-1 free axes are repeated."""
    shape, free = b.types[dst].shape, b.types[dst].free
    if free > 1 and b.types[right].free == 1:
        engine = _engine(b, operator, left, scalar=True)
        emit_tensor_scalar(b, dst, left, operator, right, engine=engine)
    elif free > 1 and b.types[left].free == 1:
        engine = _engine(b, operator, right, scalar=True)
        emit_tensor_scalar(b, dst, right, operator, left, reverse0=True, engine=engine)
    else:
        if b.types[left].buffer is Buffer.PSUM and b.types[right].buffer is Buffer.PSUM:
            right = out_of_psum(b, right)
        left, right = spread_free(b, left, shape), spread_free(b, right, shape)
        engine = _engine(b, operator, left, scalar=False)
        b.emit("tensor_tensor", engine, {"op": operator}, dst=dst, data1=left, data2=right)


@lowers("nl.divide")
def _divide(b: Builder) -> None:
    """No instruction divides: multiply by the reciprocal."""
    if not b.legacy:
        b.notes.append(
            "nl.divide has no hardware form; it is counted as nl.multiply by nl.reciprocal"
        )
    if b.is_tile("x") and not b.is_tile("y"):
        number = float(plain(b.values["y"]))
        if number == 0:
            raise LoweringError("nl.divide by the constant 0")
        x = b.tile("x")
        dst = b.returns(x.shape, b.dtype(weak_dtype(b, x.dtype, b.values["y"])))
        emit_tensor_scalar(b, dst, "x", "multiply", 1.0 / number)
        return
    y = b.tile("y")
    narrow = y.dtype.is_float and y.dtype.nbytes < 4
    inverse = b.temporary(y.shape, y.dtype if narrow else FLOAT32)
    b.emit("reciprocal", None, {}, dst=inverse, data="y")
    if not b.is_tile("x"):
        dst = b.returns(y.shape, b.dtype(weak_dtype(b, y.dtype, b.values["x"])))
        emit_tensor_scalar(b, dst, inverse, "multiply", plain(b.values["x"]))
        return
    x = b.tile("x")
    shape = common_shape(b)
    dst = b.returns(shape, b.dtype(promote(x.dtype, y.dtype)))
    left = spread_partitions(b, "x", shape[0])
    right = spread_partitions(b, inverse, shape[0])
    if b.types[dst].free > 1 and b.types[right].free == 1:
        emit_tensor_scalar(b, dst, left, "multiply", right)
    else:
        left, right = spread_free(b, left, shape), spread_free(b, right, shape)
        b.emit("tensor_tensor", Engine.VECTOR, {"op": "multiply"}, dst=dst, data1=left, data2=right)


@lowers("nl.mod", "nl.fmod")
def _remainder(b: Builder) -> None:
    """No document says which instructions give a remainder: counted as one of unknown cost."""
    operator = short_name(b)
    if not b.legacy:
        b.notes.append(f"nl.{operator} has no hardware form; it works in simulation only")
    attrs: dict[str, Any] = {"op": operator}
    if b.is_tile("x") and b.is_tile("y"):
        shape = common_shape(b)
        x, y = b.tile("x"), b.tile("y")
        dst = b.returns(shape, b.dtype(promote(x.dtype, y.dtype)))
        left = spread_free(b, spread_partitions(b, "x", shape[0]), shape)
        right = spread_free(b, spread_partitions(b, "y", shape[0]), shape)
        b.emit("remainder", None, attrs, dst=dst, data1=left, data2=right)
        return
    tile, other = ("x", "y") if b.is_tile("x") else ("y", "x")
    given, number = b.tile(tile), b.values[other]
    dst = b.returns(given.shape, b.dtype(weak_dtype(b, given.dtype, number)))
    role, constant = ("data1", "data2") if tile == "x" else ("data2", "data1")
    attrs[constant] = plain(number)
    b.emit("remainder", None, attrs, dst=dst, **{role: tile})


@lowers("nl.where")
def _where(b: Builder) -> None:
    """Copy ``y``, then overwrite it where the condition holds.

    Assumed: no document says how nl.where is lowered. A condition in a float type is compared
    with 0 first, since the predicate of the copy is an integer.
    """
    condition = b.tile("condition")
    shape, dtypes = condition.shape, []
    for name in ("x", "y"):
        if b.is_tile(name):
            shape = broadcast_shape(shape, b.tile(name).shape)
            dtypes.append(b.tile(name).dtype)
    if not dtypes:
        raise LoweringError("nl.where needs a tile as x or y")
    dtype = dtypes[0] if len(dtypes) == 1 else promote(*dtypes)
    if len(dtypes) == 1:
        number = b.values["y" if b.is_tile("x") else "x"]
        dtype = weak_dtype(b, dtype, number)
    dst = b.returns(shape, b.dtype(dtype))
    kind = b.types[dst].dtype
    predicate = spread_partitions(b, "condition", shape[0])
    if b.types[predicate].dtype.is_float:
        truth = b.temporary(b.types[predicate].shape, get_dtype("uint8"))
        emit_tensor_scalar(b, truth, predicate, "not_equal", 0.0, engine=Engine.VECTOR)
        predicate = truth
    predicate = spread_free(b, predicate, shape)
    on_true = _alternative(b, "x", shape, kind)
    if b.is_tile("y"):
        on_false = spread_free(b, spread_partitions(b, "y", shape[0]), shape)
        b.emit("tensor_copy", Engine.VECTOR, {}, dst=dst, src=on_false)
    else:
        b.emit("memset", Engine.VECTOR, {"value": plain(b.values["y"])}, dst=dst)
    operands = {"dst": dst, "src": on_true, "predicate": predicate, "kept": dst}
    b.emit("tensor_copy_predicated", None, {"reverse_pred": False}, **operands)


def _alternative(b: Builder, name: str, shape: tuple[int, ...], dtype: DType) -> str:
    """A tile of that shape and type with an operand of nl.where."""
    if not b.is_tile(name):
        filled = b.temporary(shape, dtype)
        b.emit("memset", Engine.VECTOR, {"value": plain(b.values[name])}, dst=filled)
        return filled
    given = spread_free(b, spread_partitions(b, name, shape[0]), shape)
    if b.types[given].dtype == dtype:
        return given
    cast = b.temporary(shape, dtype)
    b.emit("tensor_copy", Engine.VECTOR, {}, dst=cast, src=given)
    return cast
