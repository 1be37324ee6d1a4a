"""Layer 3 of the instruction table: ``nki.language`` functions as lists of instructions.

A composite is no instruction of its own but a pure function from operand descriptors to
instructions, in the order in which the compiler issues them.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from accelopt_lsp.nki.dtypes import FLOAT32, DType, promote
from accelopt_lsp.nki.instruction_calls import (
    checked_number,
    default_copy_engine,
    emit_reduce,
    emit_tensor_scalar,
    reduce_axes,
    reduced_shape,
)
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers
from accelopt_lsp.nki.operands import Buffer, Engine, OperandType

_ACTIVATIONS = (
    "exp log sqrt tanh sigmoid relu gelu gelu_dx gelu_apprx_tanh gelu_apprx_sigmoid silu "
    "silu_dx softplus mish erf erf_dx arctan sign square"
).split()


@lowers(*(f"nl.{name}" for name in _ACTIVATIONS))
def _activation_function(b: Builder) -> None:
    _unary_activation(b, _short_name(b))


def _short_name(b: Builder) -> str:
    return b.api.rpartition(".")[2]


def _unary_activation(b: Builder, function: str) -> None:
    x = b.tile("x")
    dst = b.returns(x.shape, b.dtype(x.dtype))
    b.emit("activation", Engine.SCALAR, {"op": function, "scale": 1.0}, dst=dst, data="x")


@lowers("nl.rsqrt")
def _rsqrt(b: Builder) -> None:
    """Scalar Engine in the legacy dialect; GpSimd since NKI 0.5."""
    x = b.tile("x")
    if b.legacy:
        _unary_activation(b, "rsqrt")
        return
    dst = b.returns(x.shape, b.dtype(x.dtype))
    emit_tensor_scalar(b, dst, "x", "rsqrt", 0.0, engine=Engine.GPSIMD)


@lowers("nl.reciprocal")
def _reciprocal(b: Builder) -> None:
    x = b.tile("x")
    b.emit("reciprocal", None, {}, dst=b.returns(x.shape, b.dtype(x.dtype)), data="x")


@lowers("nl.abs")
def _abs(b: Builder) -> None:
    _unary_activation(b, "abs")


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
    operator = _short_name(b)
    if not b.is_tile("x") and not b.is_tile("y"):
        raise LoweringError(f"nl.{operator} needs at least one tile")
    if not b.is_tile("y"):
        _with_scalar(b, operator, "x", b.values["y"], reverse=False)
    elif not b.is_tile("x"):
        _with_scalar(b, operator, "y", b.values["x"], reverse=True)
    else:
        _two_tiles(b, operator)


def _with_scalar(b: Builder, operator: str, tile: str, number: Any, *, reverse: bool) -> None:
    x = b.tile(tile)
    dst = b.returns(x.shape, b.dtype(x.dtype))
    emit_tensor_scalar(b, dst, tile, operator, checked_number(number), reverse0=reverse)


def _two_tiles(b: Builder, operator: str) -> None:
    x, y = b.tile("x"), b.tile("y")
    shape = broadcast_shape(x.shape, y.shape)
    dst = b.returns(shape, b.dtype(promote(x.dtype, y.dtype)))
    left = _spread_partitions(b, "x", shape[0])
    right = _spread_partitions(b, "y", shape[0])
    free = b.types[dst].free
    if free > 1 and b.types[right].free == 1:
        emit_tensor_scalar(b, dst, left, operator, right)
    elif free > 1 and b.types[left].free == 1:
        emit_tensor_scalar(b, dst, right, operator, left, reverse0=True)
    else:
        left, right = _spread_free(b, left, shape), _spread_free(b, right, shape)
        engine = Engine.GPSIMD if operator == "power" else Engine.VECTOR
        b.emit("tensor_tensor", engine, {"op": operator}, dst=dst, data1=left, data2=right)


def broadcast_shape(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy broadcasting of two shapes.

    Raises:
        LoweringError: they do not go together.
    """
    rank = max(len(first), len(second))
    padded = [(1,) * (rank - len(s)) + s for s in (first, second)]
    shape = []
    for a, c in zip(*padded, strict=True):
        if a != c and 1 not in (a, c):
            raise LoweringError(f"shapes {list(first)} and {list(second)} do not broadcast", "R027")
        shape.append(max(a, c))
    return tuple(shape)


def _spread_free(b: Builder, slot: str, shape: tuple[int, ...]) -> str:
    """A stride-0 view along free dimensions of size 1: costs nothing."""
    given = b.types[slot]
    if given.shape == shape:
        return slot
    layout = (1,) * (len(shape) - len(given.shape)) + given.shape
    strides = (0,) * (len(shape) - len(given.shape)) + given.layout
    view = tuple(
        0 if size == 1 and wanted > 1 else stride
        for size, stride, wanted in zip(layout, strides, shape, strict=True)
    )
    return add_view(b, slot, OperandType(shape, given.dtype, given.buffer, view))


def add_view(b: Builder, slot: str, view: OperandType) -> str:
    """Slot of a broadcast view of another slot: named ``SLOT@broadcast``."""
    name = f"{slot}@broadcast"
    b.types[name] = view
    return name


def _spread_partitions(b: Builder, slot: str, partitions: int) -> str:
    """Copy a one-partition tile to many: matmul with a column of ones, then a copy.

    One K=1 product and one copy out of PSUM per 512 columns.
    """
    given = b.types[slot]
    if given.partitions == partitions or given.partitions != 1:
        return slot
    spread = b.temporary((partitions, given.free), given.dtype)
    broadcast_partitions(b, slot, spread)
    if len(given.shape) > 2:
        # Elementwise shapes must agree with the other operand's rank.
        b.types[spread] = OperandType((partitions, *given.shape[1:]), given.dtype, Buffer.SBUF)
    return spread


def broadcast_partitions(b: Builder, source: str, dst: str) -> None:
    """Fill every partition of ``dst`` with the one partition of ``source``.

    The chunks are named by slot (``SLOT@columns:START:STOP``), so that whoever executes the
    instructions addresses the same 512 columns that were counted here.
    """
    given, target = b.types[source], b.types[dst]
    ones = b.temporary((1, target.partitions), given.dtype, constant=1.0)
    limit = 512
    for chunk in range(ceil(given.free / limit)):
        start, stop = chunk * limit, min((chunk + 1) * limit, given.free)
        moving = columns_of(b, source, start, stop)
        out = columns_of(b, dst, start, stop)
        psum = b.temporary((target.partitions, stop - start), FLOAT32, Buffer.PSUM)
        b.emit(
            "nc_matmul",
            None,
            {"is_transpose": False, "accumulate": False},
            dst=psum,
            stationary=ones,
            moving=moving,
        )
        b.emit("tensor_copy", default_copy_engine(b, b.types[psum]), {}, dst=out, src=psum)


def columns_of(b: Builder, slot: str, start: int, stop: int) -> str:
    """Slot of the flattened free columns ``start:stop`` of another slot."""
    given = b.types[slot]
    if (start, stop) == (0, given.free) and len(given.shape) == 2:
        return slot
    name = f"{slot}@columns:{start}:{stop}"
    b.types[name] = OperandType((given.partitions, stop - start), given.dtype, given.buffer)
    return name


@lowers("nl.divide")
def _divide(b: Builder) -> None:
    """No instruction divides: multiply by the reciprocal."""
    if b.is_tile("x") and not b.is_tile("y"):
        number = float(b.values["y"])
        if number == 0:
            raise LoweringError("nl.divide by the constant 0")
        _with_scalar(b, "multiply", "x", 1.0 / number, reverse=False)
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
    left = _spread_partitions(b, "x", shape[0])
    right = _spread_partitions(b, inverse, shape[0])
    if b.types[dst].free > 1 and b.types[right].free == 1:
        emit_tensor_scalar(b, dst, left, "multiply", right)
    else:
        left, right = _spread_free(b, left, shape), _spread_free(b, right, shape)
        b.emit("tensor_tensor", Engine.VECTOR, {"op": "multiply"}, dst=dst, data1=left, data2=right)


_REDUCTIONS = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply"}


@lowers(*(f"nl.{n}" for n in _REDUCTIONS), "nl.mean")
def _reduction(b: Builder) -> None:
    name = _short_name(b)
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


@lowers("nl.load")
def _load(b: Builder) -> None:
    src = b.tile("src")
    dst = b.returns(_tile_shape(src.shape), b.dtype(src.dtype))
    b.emit("dma_copy", None, {}, dst=dst, src="src")


def _tile_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if len(shape) > 1 else (*shape, 1)


@lowers("nl.store")
def _store(b: Builder) -> None:
    """A value in PSUM, which no DMA reaches, takes a copy through SBUF in the legacy dialect."""
    value = b.tile("value")
    b.tile("dst")
    source = "value"
    if value.buffer is Buffer.PSUM and b.legacy:
        source = b.temporary(value.shape, value.dtype)
        b.emit("tensor_copy", default_copy_engine(b, value), {}, dst=source, src="value")
    b.emit("dma_copy", None, {}, dst="dst", src=source)


@lowers("nl.load_transpose2d")
def _load_transpose2d(b: Builder) -> None:
    src = b.tile("src")
    if len(src.shape) != 2:
        raise LoweringError(f"nl.load_transpose2d needs a 2-D tensor, got {list(src.shape)}")
    dst = b.returns((src.shape[1], src.shape[0]), b.dtype(src.dtype))
    b.emit("dma_transpose", None, {"axes": (1, 0)}, dst=dst, src="src")


@lowers("nl.copy")
def _copy(b: Builder) -> None:
    name = "src" if b.legacy else "x"
    src = b.tile(name)
    dst = b.returns(src.shape, b.dtype(src.dtype))
    b.emit("tensor_copy", default_copy_engine(b, src), {}, dst=dst, src=name)


@lowers("nl.matmul")
def _matmul(b: Builder) -> None:
    """The stationary must have the contraction on partitions: x is transposed if it has not."""
    b.tile("x")
    y = b.tile("y")
    stationary = _in_sbuf(b, "x")
    if not b.values.get("transpose_x"):
        stationary = _transposed(b, stationary)
    moving = _in_sbuf(b, "y")
    rows = b.types[stationary].free
    dst = b.returns((rows, y.free), FLOAT32, Buffer.PSUM)
    attrs = {"is_transpose": False, "accumulate": None if not b.legacy else False}
    b.emit("nc_matmul", None, attrs, dst=dst, stationary=stationary, moving=moving)


def _in_sbuf(b: Builder, slot: str) -> str:
    """An operand where the Tensor Engine reads: the legacy dialect copies it out of PSUM."""
    given = b.types[slot]
    if not b.legacy or given.buffer is not Buffer.PSUM:
        return slot
    copied = b.temporary(given.shape, given.dtype)
    b.emit("tensor_copy", default_copy_engine(b, given), {}, dst=copied, src=slot)
    return copied


def _transposed(b: Builder, slot: str) -> str:
    """Tensor Engine transpose into PSUM and a copy back to SBUF."""
    given = b.types[slot]
    psum = b.temporary((given.free, given.partitions), _transpose_dtype(b, given), Buffer.PSUM)
    b.emit("nc_transpose", Engine.TENSOR, {"engine": Engine.TENSOR}, dst=psum, data=slot)
    result = b.temporary((given.free, given.partitions), given.dtype)
    b.emit("tensor_copy", default_copy_engine(b, b.types[psum]), {}, dst=result, src=psum)
    return result


def _transpose_dtype(b: Builder, given: OperandType) -> DType:
    """NeuronCore-v2 writes PSUM in fp32 only; later cores keep the input type."""
    return FLOAT32 if b.target.generation < 3 else given.dtype


@lowers("nl.transpose")
def _transpose(b: Builder) -> None:
    x = b.tile("x")
    shape = (x.free, x.partitions)
    if max(shape) <= 32:
        dst = b.returns(shape, b.dtype(x.dtype))
        b.emit("nc_transpose", Engine.VECTOR, {"engine": Engine.VECTOR}, dst=dst, data="x")
        return
    source = _in_sbuf(b, "x")
    dst = b.returns(shape, b.dtype(_transpose_dtype(b, x)), Buffer.PSUM)
    b.emit("nc_transpose", Engine.TENSOR, {"engine": Engine.TENSOR}, dst=dst, data=source)


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
    weights = _spread_partitions(b, "w", x.partitions)
    if b.types[weights].free == 1 and w.free == 1:
        emit_tensor_scalar(b, dst, normed, "multiply", weights)
    else:
        weights = _spread_free(b, weights, x.shape)
        b.emit(
            "tensor_tensor", Engine.VECTOR, {"op": "multiply"}, dst=dst, data1=normed, data2=weights
        )


@lowers("nl.broadcast_to")
def _broadcast_to(b: Builder) -> None:
    name = "src" if b.legacy else "x"
    src = b.tile(name)
    shape = tuple(b.values["shape"])
    if broadcast_shape(src.shape, shape) != shape:
        raise LoweringError(f"cannot broadcast {list(src.shape)} to {list(shape)}", "R027")
    if src.partitions == shape[0] or src.partitions != 1:
        b.view_of = _spread_free(b, name, shape)
        b.result = b.types[b.view_of]
        return
    if src.free != OperandType(shape, src.dtype, src.buffer).free:
        raise LoweringError("broadcast partitions and free axes in two steps")
    broadcast_partitions(b, name, b.returns(shape, b.dtype(src.dtype)))
