"""Addresses that are known at run time only: registers, offsets in SBUF, index vectors, gathers.

A dynamic view is an ordinary view plus an :class:`Index`. One offset for the whole view moves it;
an index for each position of an axis makes reads gather and writes scatter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from accelopt_lsp.nki.operands import Dynamic, DynamicKind, Engine
from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.errors import KernelRejected

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.indexing import Affine
    from accelopt_lsp.profiler.simulator.plans import Step
    from accelopt_lsp.profiler.simulator.registers import Register
    from accelopt_lsp.profiler.simulator.tensors import Tensor


@frozen(slots=True, eq=False)
class Index:
    """What a dynamic view adds to its addresses.

    Attributes:
        kind: how many offsets there are, and where they come from.
        source: register, or tile in SBUF that holds the offsets.
        stride: elements of the allocation for one unit of the offset.
        limit: offsets must be below it; None where only the allocation bounds them.
        form: shape in which the offsets are broadcast over the view (vectors).
        terms: where all are at least 0, the view is used at all (masked views).
    """

    kind: DynamicKind
    source: Tensor | Register | None = None
    stride: int = 1
    limit: int | None = None
    form: tuple[int, ...] = ()
    terms: tuple[Affine, ...] = ()

    @property
    def tile(self) -> Tensor | None:
        """The tile that holds the offsets, if one does."""
        return self.source if hasattr(self.source, "memory") else None  # type: ignore[return-value]

    def described(self) -> Dynamic:
        """What lowering needs to know."""
        tile = self.tile
        return Dynamic(self.kind, None if tile is None else tile.operand or tile.typed())


Place = tuple["Tensor | Array", "Array | None"]
"""A view that is static by now, or flat positions in the allocation; and which of them count."""


def place(tensor: Tensor, step: Step, line: int) -> Place:
    """Where a dynamic view is at this moment.

    Raises:
        KernelRejected: an offset leaves the tensor, and the instruction does not skip such.
    """
    index = tensor.dynamic
    skips = step.attrs.get("oob_mode") == "skip"
    if index.kind in (DynamicKind.REGISTER, DynamicKind.SCALAR):
        return _moved(tensor, index, skips, line)
    if index.kind is DynamicKind.MASKED:
        positions = _positions(tensor)
        inside = _holds(index.terms, tensor.shape)
        return np.where(inside, positions, 0), inside
    if index.kind is DynamicKind.GATHER:
        return _gathered(tensor, index, step, line)
    offsets = _offsets(index, line).reshape(index.form)
    bad = offsets < 0
    if index.limit is not None:
        bad |= offsets >= index.limit
    positions = _positions(tensor) + offsets * index.stride
    memory = tensor.memory
    assert memory is not None
    bad = np.broadcast_to(bad, tensor.shape) | (positions >= memory.rows * memory.row)
    if not bad.any():
        return positions, None
    if not skips:
        worst = offsets.reshape(-1)[int(np.argmax(np.abs(offsets.reshape(-1))))]
        raise KernelRejected(_leaves(tensor, index, int(worst)), "R028", line)
    return np.where(bad, 0, positions), ~bad


def _leaves(tensor: Tensor, index: Index, offset: int) -> str:
    assert tensor.memory is not None
    limit = "its allocation" if index.limit is None else f"a dimension of size {index.limit}"
    return (
        f"a run-time index of {tensor.memory.name or 'a tensor'} is {offset}, which leaves "
        f"{limit}; bound it, or let a DMA skip such rows with oob_mode.skip"
    )


def _moved(tensor: Tensor, index: Index, skips: bool, line: int) -> Place:
    if index.kind is DynamicKind.REGISTER:
        offset = index.source.integer("a run-time index")  # type: ignore[union-attr]
    else:
        offset = int(_offsets(index, line).reshape(-1)[0])
    view = tensor.static(tensor.offset + offset * index.stride)
    memory = tensor.memory
    assert memory is not None
    low = high = view.offset
    for size, stride in zip(view.shape, view.strides, strict=True):
        low, high = low + min(0, stride * (size - 1)), high + max(0, stride * (size - 1))
    outside = offset < 0 or (index.limit is not None and offset >= index.limit)
    if outside or low < 0 or high >= memory.rows * view.row:
        if not skips:
            raise KernelRejected(_leaves(tensor, index, offset), "R028", line)
        return tensor.static(0), np.zeros(tensor.shape, dtype=bool)
    return view, None


def _offsets(index: Index, line: int) -> Array:
    tile = index.tile
    assert tile is not None and tile.memory is not None
    values = tile.memory.view(tile)
    if tile.memory.array is None or tile.memory.reads_unwritten(values):
        raise KernelRejected(
            f"a run-time index reads {tile.memory.name or 'a tile'}, which was never written",
            "R099",
            line,
        )
    whole: Array = values.astype(np.int64)
    return whole


def _positions(tensor: Tensor) -> Array:
    total: Array = np.full((1,) * len(tensor.shape), tensor.offset, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True)):
        form = [1] * len(tensor.shape)
        form[axis] = size
        total = total + (np.arange(size, dtype=np.int64) * stride).reshape(form)
    return np.broadcast_to(total, tensor.shape)


def _holds(terms: tuple[Affine, ...], shape: tuple[int, ...]) -> Array:
    valid: Array = np.ones((1,) * len(shape), dtype=bool)
    for term in terms:
        valid = valid & (term.values() >= 0)
    return np.broadcast_to(valid, shape)


def _gathered(tensor: Tensor, index: Index, step: Step, line: int) -> Place:
    """Tensor indirection: offset i of a group of G partitions is ``index[i % G, i // G]``.

    G is 32 for the Tensor Engine, 16 for the others (NkiTensor.indirect).
    """
    offsets = _offsets(index, line)
    rows, count = tensor.shape
    size = 32 if step.issue.engine is Engine.TENSOR else 16
    columns = np.empty((rows, count), dtype=np.int64)
    for first in range(0, rows, size):
        group = offsets[first : first + size].reshape(min(size, rows - first), -1)
        columns[first : first + size] = group.T.reshape(-1)[:count]
    if ((columns < 0) | (columns >= (index.limit or 0))).any():
        worst = int(columns.reshape(-1)[int(np.argmax(np.abs(columns)))])
        raise KernelRejected(_leaves(tensor, index, worst), "R028", line)
    base = tensor.offset + np.arange(rows, dtype=np.int64)[:, None] * tensor.strides[0]
    return base + columns * index.stride, None


def read(tensor: Tensor, where: Place) -> Array:
    """Values at a place."""
    view, _ = where
    memory = tensor.memory
    assert memory is not None
    if not isinstance(view, np.ndarray):
        return memory.view(view)
    if memory.array is None:
        memory.allocate()
    found: Array = memory.array[view]  # type: ignore[index]
    return found


def write(tensor: Tensor, where: Place, values: Array, counts: Array | None) -> None:
    """Store rounded values at a place, only where ``counts`` says so."""
    view, valid = where
    memory = tensor.memory
    assert memory is not None
    memory.before_write(0)
    if valid is not None:
        counts = valid if counts is None else counts & valid
    values = np.broadcast_to(values, tensor.shape)
    if not isinstance(view, np.ndarray):
        np.copyto(
            memory.view(view), values, where=True if counts is None else counts, casting="unsafe"
        )
        return
    if counts is None:
        memory.array[view] = values  # type: ignore[index]
    else:
        counts = np.broadcast_to(counts, tensor.shape)
        memory.array[view[counts]] = values[counts]  # type: ignore[index]


def counted(places: list[Place], shape: Any) -> Array | None:
    """Where every dynamic operand of an instruction is inside its tensor."""
    valid: Array | None = None
    for _, inside in places:
        if inside is not None and inside.shape == shape:
            valid = inside if valid is None else valid & inside
    return valid
