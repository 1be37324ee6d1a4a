"""Loads, stores, copies and broadcasts of ``nki.language``."""

from __future__ import annotations

from accelopt_lsp.nki.composites.elementwise import plain
from accelopt_lsp.nki.composites.spread import (
    broadcast_partitions,
    broadcast_shape,
    spread_free,
    spread_partitions,
)
from accelopt_lsp.nki.instruction_calls.base import (
    default_copy_engine,
)
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers
from accelopt_lsp.nki.operands import Buffer, Engine


@lowers("nl.load")
def _load(b: Builder) -> None:
    src = b.tile("src")
    dst = b.returns(_tile_shape(src.shape), b.dtype(src.dtype))
    b.emit("dma_copy", None, {}, dst=dst, src="src")


def _tile_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if len(shape) > 1 else (*shape, 1)


@lowers("nl.store")
def _store(b: Builder) -> None:
    """A value in PSUM, which no DMA reaches, takes a copy through SBUF in the legacy dialect.

    A number is written to a tile first.
    """
    dst = b.tile("dst")
    if not b.is_tile("value"):
        filled = b.temporary(_tile_shape(dst.shape), dst.dtype)
        b.emit("memset", Engine.VECTOR, {"value": plain(b.values["value"])}, dst=filled)
        b.emit("dma_copy", None, {}, dst="dst", src=filled)
        return
    value = b.tile("value")
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
    if src.dynamic is not None and src.dynamic.kind.run_time:
        raise LoweringError(
            "nl.load_transpose2d takes no run-time indices; load the rows with nl.load, then "
            "transpose them on the Tensor Engine",
            "R016",
        )
    dst = b.returns((src.shape[1], src.shape[0]), b.dtype(src.dtype))
    b.emit("dma_transpose", None, {"axes": (1, 0)}, dst=dst, src="src")


@lowers("nl.atomic_rmw")
def _atomic_rmw(b: Builder) -> None:
    """A transfer that adds to what its destination holds (inferred)."""
    dst = b.tile("dst")
    if b.values.get("op") not in ("add", None):
        raise LoweringError(f"nl.atomic_rmw only adds, got op={b.values['op']}")
    source = "value"
    if not b.is_tile("value"):
        source = b.temporary(_tile_shape(dst.shape), dst.dtype)
        b.emit("memset", Engine.VECTOR, {"value": plain(b.values["value"])}, dst=source)
    b.tile("dst")
    b.emit("dma_copy", None, {}, dst="dst", src=source, before="dst")


@lowers("nl.gather_flattened")
def _gather_flattened(b: Builder) -> None:
    """One gather within each partition (inferred: NKI 0.2 renamed it to nc_n_gather)."""
    data, indices = b.tile("data"), b.tile("indices")
    if not b.legacy and b.values.get("axis") not in (0, None):
        raise LoweringError("nl.gather_flattened gathers along axis 0 of each partition only")
    dst = b.returns(indices.shape, b.dtype(data.dtype))
    b.emit("nc_n_gather", None, {}, dst=dst, data="data", indices="indices")


@lowers("nl.copy")
def _copy(b: Builder) -> None:
    name = "src" if b.legacy else "x"
    src = b.tile(name)
    dst = b.returns(src.shape, b.dtype(src.dtype))
    b.emit("tensor_copy", default_copy_engine(b, src), {}, dst=dst, src=name)


@lowers("nl.broadcast_to")
def _broadcast_to(b: Builder) -> None:
    """A view along free axes, products with ones along partitions, a copy to change the type."""
    name = "src" if b.legacy else "x"
    src = b.tile(name)
    shape = tuple(b.values["shape"])
    if broadcast_shape(src.shape, shape) != shape:
        raise LoweringError(f"cannot broadcast {list(src.shape)} to {list(shape)}", "R027")
    dtype = b.dtype(src.dtype)
    if src.partitions != shape[0]:
        narrow = (shape[0], *((1,) * (len(shape) - len(src.shape))), *src.shape[1:])
        if narrow == shape and dtype == src.dtype and src.dtype.is_float:
            broadcast_partitions(b, name, b.returns(shape, dtype))
            return
        name = spread_partitions(b, name, shape[0])
    elif dtype == src.dtype:
        b.view_of = spread_free(b, name, shape)
        b.result = b.types[b.view_of]
        return
    dst = b.returns(shape, dtype)
    wide = spread_free(b, name, shape)
    b.emit("tensor_copy", default_copy_engine(b, b.types[wide]), {}, dst=dst, src=wide)
