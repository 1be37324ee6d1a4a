"""Broadcasting and views of operands that composites share."""

from __future__ import annotations

from math import ceil

from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.instruction_calls.base import (
    default_copy_engine,
)
from accelopt_lsp.nki.lowering import Builder, LoweringError
from accelopt_lsp.nki.operands import Buffer, OperandType


def short_name(b: Builder) -> str:
    return b.api.rpartition(".")[2]


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


def spread_free(b: Builder, slot: str, shape: tuple[int, ...]) -> str:
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


def spread_partitions(b: Builder, slot: str, partitions: int) -> str:
    """Copy a one-partition tile to many: matmul with a column of ones, then a copy.

    One K=1 product and one copy out of PSUM per 512 columns.
    """
    given = b.types[slot]
    if given.partitions == partitions or given.partitions != 1:
        return slot
    source = slot
    if not given.dtype.is_float:
        # The Tensor Engine multiplies floats only.
        source = b.temporary(given.shape, FLOAT32)
        b.emit("tensor_copy", default_copy_engine(b, given), {}, dst=source, src=slot)
    elif given.buffer is Buffer.PSUM and b.legacy:
        source = b.temporary(given.shape, given.dtype)
        b.emit("tensor_copy", default_copy_engine(b, given), {}, dst=source, src=slot)
    spread = b.temporary((partitions, given.free), given.dtype)
    broadcast_partitions(b, source, spread)
    if len(given.shape) > 2:
        # Elementwise shapes must agree with the other operand's rank.
        b.types[spread] = OperandType((partitions, *given.shape[1:]), given.dtype, Buffer.SBUF)
    return spread


def broadcast_partitions(b: Builder, source: str, dst: str) -> None:
    """Fill every partition of ``dst`` with the one partition of ``source``.

    The chunks are named by slot (``SLOT@columns:START:STOP``), so that whoever executes the
    instructions addresses the same 512 columns that were counted here.
    """
    source = flat_tile(b, source)
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


def flat_tile(b: Builder, slot: str) -> str:
    """A slot whose free elements follow each other: itself, or a copy of a strided tile."""
    given = b.types[slot]
    if given.free == 1 or given.contiguous_run() >= given.free:
        return slot
    copied = b.temporary((given.partitions, given.free), given.dtype)
    b.emit("tensor_copy", default_copy_engine(b, given), {}, dst=copied, src=slot)
    return copied
