"""Loads, stores, copies and broadcasts of ``nki.language``."""

from __future__ import annotations

from accelopt_lsp.nki.composites.spread import (
    broadcast_partitions,
    broadcast_shape,
    spread_free,
)
from accelopt_lsp.nki.instruction_calls.base import (
    default_copy_engine,
)
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers
from accelopt_lsp.nki.operands import Buffer, OperandType


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


@lowers("nl.broadcast_to")
def _broadcast_to(b: Builder) -> None:
    name = "src" if b.legacy else "x"
    src = b.tile(name)
    shape = tuple(b.values["shape"])
    if broadcast_shape(src.shape, shape) != shape:
        raise LoweringError(f"cannot broadcast {list(src.shape)} to {list(shape)}", "R027")
    if src.partitions == shape[0] or src.partitions != 1:
        b.view_of = spread_free(b, name, shape)
        b.result = b.types[b.view_of]
        return
    if src.free != OperandType(shape, src.dtype, src.buffer).free:
        raise LoweringError("broadcast partitions and free axes in two steps")
    broadcast_partitions(b, name, b.returns(shape, b.dtype(src.dtype)))
