"""Tensors: memory, and views of it."""

from __future__ import annotations

import ast
from math import prod
from typing import TYPE_CHECKING

from attrs import define, evolve, frozen

from accelopt_lsp.analysis.affine import Linear, Var, add, bounds
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import (
    Buffer,
    Dynamic,
    OperandType,
    outside_text,
    row_major_strides,
)

if TYPE_CHECKING:
    from accelopt_lsp.analysis.modules import Origin


@define(slots=True, eq=False)
class Storage:
    """Memory behind tensors: a parameter, an output, an on-chip allocation.

    Attributes:
        id: unique within one run.
        name: variable, for people.
        buffer: memory.
        shape: all dimensions, block dimensions included.
        blocks: how many leading dimensions are block dimensions (legacy).
        dtype: element type.
        line: where it was created.
        loops: loop variables that were open then.
        kind: ``input``, ``tensor`` or ``temporary``.
        node: the call that created it, if a call did.
        origin: where that call stands, if in another file than the analyzed one; ``node`` and
            ``line`` are then of the call that led there.
        memory: name of its memory as it was given, such as ``shared_hbm``.
        placed: the writer chose its place.
    """

    id: int
    name: str
    buffer: Buffer
    shape: tuple[int, ...]
    blocks: int
    dtype: DType
    line: int
    loops: tuple[Var, ...]
    kind: str
    node: ast.AST | None = None
    origin: Origin | None = None
    memory: str = ""
    placed: bool = False

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Shape of one block."""
        return self.shape[self.blocks :]

    @property
    def block_count(self) -> int:
        return prod(self.shape[: self.blocks])

    @property
    def row(self) -> int:
        """Elements per partition (per row in HBM) of one block."""
        return prod(self.tile_shape[1:])

    @property
    def partition_bytes(self) -> int:
        """Bytes per partition of one block."""
        return prod(self.tile_shape[1:]) * self.dtype.nbytes

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.nbytes


@frozen(slots=True, eq=False)
class Fault:
    """Index forms of a view, kept while at least one of them leaves its dimension.

    ``terms``: (dimension, size, offset, strides along the view's axes).
    """

    terms: tuple[tuple[int, int, Linear, tuple[int, ...]], ...]

    def narrowed(self, axis: int, low: int) -> Fault:
        """The same after an axis lost its first ``low`` positions."""
        return Fault(tuple((d, n, add(o, s[axis] * low), s) for d, n, o, s in self.terms))

    def describe(self, shape: tuple[int, ...]) -> str:
        """The first index that is sure to leave its dimension, or an empty string."""
        for dim, size, offset, strides in self.terms:
            low, high = bounds(offset)
            for step, count in zip(strides, shape, strict=True):
                reach = step * (count - 1)
                low, high = low + min(reach, 0), high + max(reach, 0)
            if low < 0 or high >= size:
                return outside_text(low, high, dim, size)
        return ""


@frozen(slots=True, eq=False)
class View:
    """A tensor, or part of one: strides and an offset into an allocation.

    Attributes:
        storage: what it looks at.
        shape: sizes; on chip, dimension 0 is the partition dimension.
        strides: in elements of the allocation (of one block of it).
        offset: in elements of the allocation (of one block of it).
        dtype: element type.
        block: index of the block, for storages with block dimensions.
        fault: why an unmasked use would be out of bounds.
        dynamic: what of its place is known at run time only.
        index: the tile that this is read from.
    """

    storage: Storage
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: Linear
    dtype: DType
    block: tuple[Linear, ...] = ()
    fault: Fault | None = None
    dynamic: Dynamic | None = None
    index: View | None = None

    @classmethod
    def whole(cls, storage: Storage, block: tuple[Linear, ...] = ()) -> View:
        shape = storage.tile_shape
        return cls(storage, shape, row_major_strides(shape), 0, storage.dtype, block)

    @property
    def buffer(self) -> Buffer:
        return self.storage.buffer

    @property
    def on_chip(self) -> bool:
        return self.storage.buffer.on_chip

    @property
    def is_whole(self) -> bool:
        return self.offset == 0 and prod(self.shape) == prod(self.storage.tile_shape)

    def operand(self) -> OperandType:
        """Descriptor of this tensor for lowering; strides of size-1 dimensions do not matter."""
        layout = self.strides
        start = 0
        if self.on_chip:
            layout = (0, *layout[1:])
            row = self.storage.row * self.storage.dtype.nbytes // self.dtype.nbytes
            start = max(0, bounds(self.offset)[0] // max(row, 1))
        return OperandType(self.shape, self.dtype, self.buffer, layout, start, self.dynamic)

    def narrowed(self, axis: int, low: int, high: int) -> View:
        """Positions ``low`` to ``high`` of one axis."""
        shape = (*self.shape[:axis], high - low, *self.shape[axis + 1 :])
        fault = self.fault.narrowed(axis, low) if self.fault is not None else None
        offset = add(self.offset, self.strides[axis] * low)
        dynamic, index = self.dynamic, self.index
        if index is not None and axis == 0 and index.shape[0] == self.shape[0] > 1:
            index = index.narrowed(0, low, high)
            dynamic = Dynamic(self.dynamic.kind, index.operand()) if self.dynamic else None
        return evolve(self, shape=shape, offset=offset, fault=fault, dynamic=dynamic, index=index)

    def describe(self) -> str:
        return f"{self.dtype.short}[{','.join(map(str, self.shape))}] in {self.buffer.upper()}"


@frozen(slots=True, eq=False)
class Blocks:
    """A legacy tensor with block dimensions, of which some indices are still to come."""

    storage: Storage
    prefix: tuple[Linear, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.storage.shape[len(self.prefix) :]


@frozen(slots=True)
class Placement:
    """``ncc.sbuf.mod_alloc(...)``: a memory with places that the writer chose.

    Attributes:
        byte: first byte within a partition of the first tile; None where it is not known.
        partition: first partition.
        tiles: how many tiles follow each other.
    """

    buffer: Buffer
    byte: int | None = None
    partition: int = 0
    tiles: int = 1
