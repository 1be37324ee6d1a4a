"""Addresses that are known at run time only: registers, offsets in SBUF, index vectors, gathers.

A dynamic view is an ordinary view plus an :class:`Index`. One offset for the whole view moves it;
an index for each position of an axis makes reads gather and writes scatter.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, frozen

from accelopt_lsp.nki.operands import Dynamic, DynamicKind, Engine
from accelopt_lsp.profiler.simulator.bits import from_bits, to_bits
from accelopt_lsp.profiler.simulator.elements import ROUNDERS, Array
from accelopt_lsp.profiler.simulator.errors import WRITE_FIRST, IndexOutside, KernelRejected
from accelopt_lsp.profiler.simulator.masks import holds
from accelopt_lsp.profiler.simulator.numerics.operators import as_float
from accelopt_lsp.profiler.simulator.registers import Register

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.indexing import Affine
    from accelopt_lsp.profiler.simulator.plans import Step
    from accelopt_lsp.profiler.simulator.tensors import Tensor
    from accelopt_lsp.profiler.simulator.trace import Region


@frozen(slots=True, eq=False)
class Index:
    """What a dynamic view adds to its addresses.

    Attributes:
        kind: how many offsets there are, and where they come from.
        source: register, or tile in SBUF that holds the offsets.
        stride: elements of the allocation for one unit of the offset.
        limit: offsets must be below it; None where only the allocation bounds them.
        reach: least and largest static index that an offset is added to, for these bounds.
        form: shape in which the offsets are broadcast over the view (vectors and lists).
        terms: where all are at least 0, the view is used at all (masked views).
        listed: offsets that are known beforehand, in the shape of ``form``.
    """

    kind: DynamicKind
    source: Tensor | Register | None = None
    stride: int = 1
    limit: int | None = None
    reach: tuple[int, int] = (0, 0)
    form: tuple[int, ...] = ()
    terms: tuple[Affine, ...] = ()
    listed: Array | None = None

    @property
    def tile(self) -> Tensor | None:
        """The tile that holds the offsets, if one does."""
        return self.source if hasattr(self.source, "memory") else None  # type: ignore[return-value]

    def described(self) -> Dynamic:
        """What lowering needs to know."""
        tile = self.tile
        return Dynamic(self.kind, None if tile is None else tile.operand or tile.typed())

    def region(self, view: Tensor) -> Region:
        """Bounding box of all that a view may touch, whatever the offsets are."""
        memory = view.memory
        assert memory is not None
        row, total = view.row, memory.rows * view.row
        if self.kind in (DynamicKind.MASKED, DynamicKind.LISTED):
            positions = _positions(view)
            inside = positions[holds(self.terms, view.shape)] if self.terms else positions
            if self.listed is not None:
                inside = positions + self.listed
            if not inside.size:
                return memory.id, 0, 1, 0, 0
            rows, columns = inside // row, inside % row
            box = int(rows.min()), int(rows.max()) + 1, int(columns.min()), int(columns.max()) + 1
            nbytes = view.element.nbytes
            return memory.id, box[0], box[1], box[2] * nbytes, box[3] * nbytes
        last = view.offset + sum(
            max(0, s * (n - 1)) for n, s in zip(view.shape, view.strides, strict=True)
        )
        count = (total - 1 - last) // self.stride + 1 if self.stride > 0 else 1
        if self.limit is not None:
            count = min(count, self.limit)
        if isinstance(self.source, Register) and self.source.frozen:
            count = 1
        wide = view.static(view.offset)
        wide.shape, wide.strides = (*view.shape, max(count, 1)), (*view.strides, self.stride)
        number, first, end, low, high = wide.region()
        return number, first, min(end, memory.rows), low, high

    def outside(self, offsets: Array) -> Array:
        """Which offsets leave the dimension that they index."""
        bad: Array = offsets + self.reach[0] < 0
        if self.limit is not None:
            bad = bad | (offsets + self.reach[1] >= self.limit)
        return bad

    def narrowed(self, axis: int, low: int, high: int) -> Index:
        """What is left for positions ``low`` to ``high`` of an axis of the view."""
        if not self.form or self.form[axis] == 1:
            return self
        form = (*self.form[:axis], high - low, *self.form[axis + 1 :])
        if self.listed is not None:
            part = self.listed[(*(slice(None),) * axis, slice(low, high))]
            return evolve(self, form=form, listed=part)
        tile = self.tile
        assert tile is not None
        lead = len(self.form) - tile.ndim
        aligned = lead >= 0 and self.form[lead:] == tile.shape
        return evolve(self, form=form, source=tile.narrow(axis - lead * aligned, low, high))

    def fitted(self, old: tuple[int, ...], new: tuple[int, ...]) -> Index:
        """The same for another shape of the view.

        Raises:
            KernelRejected: a dimension with run-time indices would change.
        """
        if not self.form or old == new:
            return self
        plain = all(n == 1 for n in self.form[1:])
        if not plain or not new or old[0] != new[0]:
            raise KernelRejected(
                "a dimension that is indexed at run time cannot be sliced, moved or merged", "R081"
            )
        form = (self.form[0], *(1,) * (len(new) - 1))
        listed = None if self.listed is None else self.listed.reshape(form)
        return evolve(self, form=form, listed=listed)


@frozen(slots=True, eq=False)
class Rows:
    """Pieces of one form that begin anywhere in an allocation.

    Attributes:
        starts: flat position of the first element of each piece.
        shape, strides: form of a piece, in elements.
        kept: which pieces count; None for all.
    """

    starts: Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kept: Array | None = None

    def positions(self) -> Array:
        """Flat positions of all elements."""
        inner = _spread(self.shape, self.strides)
        return self.starts.reshape(-1, *(1,) * len(self.shape)) + inner

    def of(self, flat: Array) -> Array:
        """Every piece that could begin somewhere up to the last one; indexed by its start."""
        size = flat.itemsize
        shape = (int(self.starts.max()) + 1, *self.shape)
        return np.lib.stride_tricks.as_strided(
            flat, shape, (size, *[s * size for s in self.strides])
        )

    def apart(self) -> bool:
        """Whether no two pieces can have an element in common."""
        reach = sum(abs(s) * (n - 1) for n, s in zip(self.shape, self.strides, strict=True))
        return self.starts.size < 2 or int(np.diff(np.sort(self.starts)).min()) > reach


Place = tuple["Tensor | Rows | Array", "Array | None"]
"""A view that is static by now, rows, or flat positions in the allocation; and which count."""


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
        inside = holds(index.terms, tensor.shape)
        return np.where(inside, positions, 0), inside
    if index.kind is DynamicKind.LISTED:
        assert index.listed is not None
        return _positions(tensor) + index.listed, None
    if index.kind is DynamicKind.GATHER:
        return _gathered(tensor, index, step, line)
    offsets = _offsets(index, line)
    if offsets.size != prod(index.form) or (offsets.ndim > 1 and offsets.shape[0] < index.form[0]):
        # Several offsets a partition are taken column after column (nisa.dma_transpose).
        offsets = offsets.reshape(offsets.shape[0], -1).T.reshape(-1)[: prod(index.form)]
    if all(n == 1 for n in index.form[1:]):
        return _rows(tensor, index, offsets.reshape(-1), skips, line)
    offsets = offsets.reshape(index.form)
    positions = _positions(tensor) + offsets * index.stride
    memory = tensor.memory
    assert memory is not None
    bad = np.broadcast_to(index.outside(offsets), tensor.shape)
    bad = bad | (positions < 0) | (positions >= memory.rows * tensor.row)
    if not bad.any():
        return positions, None
    if not skips:
        first = int(np.argmax(bad))
        offset = np.broadcast_to(offsets, tensor.shape).reshape(-1)[first]
        raise _leaves(tensor, index, int(offset), int(positions.reshape(-1)[first]), line)
    return np.where(bad, 0, positions), ~bad


def _rows(tensor: Tensor, index: Index, offsets: Array, skips: bool, line: int) -> Place:
    memory = tensor.memory
    assert memory is not None
    own = np.arange(tensor.shape[0], dtype=np.int64) * tensor.strides[0]
    starts = tensor.offset + own + offsets * index.stride
    low = high = 0
    for size, stride in zip(tensor.shape[1:], tensor.strides[1:], strict=True):
        low, high = low + min(0, stride * (size - 1)), high + max(0, stride * (size - 1))
    bad = index.outside(offsets) | (starts + low < 0)
    bad |= starts + high >= memory.rows * tensor.row
    shape, strides = tensor.shape[1:], tensor.strides[1:]
    if not bad.any():
        return Rows(starts, shape, strides), None
    if not skips:
        first = int(np.argmax(bad))
        raise _leaves(tensor, index, int(offsets[first]), int(starts[first]), line)
    kept = np.logical_not(bad)
    inside = np.broadcast_to(kept.reshape(-1, *(1,) * len(shape)), tensor.shape)
    return Rows(np.where(bad, -low, starts), shape, strides, kept), inside


def _leaves(tensor: Tensor, index: Index, offset: int, position: int, line: int) -> IndexOutside:
    memory = tensor.memory
    assert memory is not None
    low, high = index.reach
    number = offset + (low if offset + low < 0 else high)
    limit = "its allocation" if index.limit is None else f"a dimension of size {index.limit}"
    return IndexOutside(
        f"a run-time index of {memory.name or 'a tensor'} is {number}, which leaves "
        f"{limit}; bound it, or let a DMA skip such rows with oob_mode.skip",
        line,
        position,
        memory.rows * tensor.row,
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
    outside = bool(index.outside(np.asarray(offset)))
    if outside or low < 0 or high >= memory.rows * view.row:
        if not skips:
            raise _leaves(tensor, index, offset, low if low < 0 else high, line)
        return tensor.static(0), np.zeros(tensor.shape, dtype=bool)
    return view, None


def _offsets(index: Index, line: int) -> Array:
    tile = index.tile
    assert tile is not None and tile.memory is not None
    values = tile.memory.view(tile)
    if tile.memory.array is None or tile.memory.reads_unwritten(values, tile):
        raise KernelRejected(
            f"a run-time index reads {tile.memory.name or 'a tile'}, which was never written"
            f"{WRITE_FIRST}",
            "R099",
            line,
        )
    whole: Array = values.astype(np.int64)
    return whole


def _positions(tensor: Tensor) -> Array:
    return tensor.offset + _spread(tensor.shape, tensor.strides)


def _spread(shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Distance of every position from the first."""
    total: Array = np.zeros((1,) * len(shape), dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        form = [1] * len(shape)
        form[axis] = size
        total = total + (np.arange(size, dtype=np.int64) * stride).reshape(form)
    return np.broadcast_to(total, shape)


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
        if group.size < count:
            raise KernelRejected(
                f"indirect: {count} offsets of a group of {size} partitions, whose index holds "
                f"{group.size}; give num_elem, or a wider index",
                "R087",
                line,
            )
        columns[first : first + size] = group.T.reshape(-1)[:count]
    if ((columns < 0) | (columns >= (index.limit or 0))).any():
        worst = int(columns.reshape(-1)[int(np.argmax(np.abs(columns)))])
        raise _leaves(tensor, index, worst, worst, line)
    base = tensor.offset + np.arange(rows, dtype=np.int64)[:, None] * tensor.strides[0]
    return base + columns * index.stride, None


def read(tensor: Tensor, where: Place) -> Array:
    """Values at a place."""
    view, _ = where
    memory = tensor.memory
    assert memory is not None
    if isinstance(view, Rows):
        found = view.of(memory.flat(tensor.element))[view.starts]
    elif isinstance(view, np.ndarray):
        found = memory.flat(tensor.element)[view]
    else:
        return memory.view(view)
    if memory.raw:
        found = from_bits(found, tensor.element)
    if tensor.dynamic.kind is DynamicKind.MASKED and found.dtype == np.float32:
        # What a mask leaves out is no number.
        assert where[1] is not None
        found = np.where(where[1], found, np.float32(np.nan))
    return found


def write(tensor: Tensor, where: Place, values: Array, counts: Array | None) -> None:
    """Store rounded values at a place, only where ``counts`` says so."""
    view, valid = where
    memory = tensor.memory
    assert memory is not None
    memory.before_write(0)
    if valid is not None and counts is not valid:
        counts = valid if counts is None else counts & valid
    values = np.broadcast_to(values, tensor.shape)
    if isinstance(view, Rows):
        if counts is None or counts is valid:
            _write_rows(tensor, view, values)
            return
        view = view.positions()
    if not isinstance(view, np.ndarray):
        if memory.special:
            memory.store(view, values, counts)
            return
        mask: Any = True if counts is None else counts
        np.copyto(memory.view(view), values, where=mask, casting="unsafe")
        return
    if counts is not None:
        counts = np.broadcast_to(counts, tensor.shape)
        view, values = view[counts], values[counts]
    memory.flat(tensor.element)[view] = to_bits(values, tensor.element) if memory.raw else values
    memory.mark(view, tensor.element)


def _write_rows(tensor: Tensor, rows: Rows, values: Array) -> None:
    memory = tensor.memory
    assert memory is not None
    if rows.kept is not None:
        values = values[rows.kept]
        rows = Rows(rows.starts[rows.kept], rows.shape, rows.strides)
    if not rows.starts.size:
        return
    stored = to_bits(values, tensor.element) if memory.raw else values
    rows.of(memory.flat(tensor.element))[rows.starts] = stored
    if memory.written is not None:
        memory.mark(rows.positions(), tensor.element)


def add(tensor: Tensor, where: Place, values: Array, counts: Array | None) -> None:
    """Add values to what is at a place; positions that occur several times take every one."""
    view, valid = where
    memory = tensor.memory
    assert memory is not None
    if isinstance(view, Rows):
        if valid is None and counts is None and view.apart():
            sums = as_float(read(tensor, where)) + as_float(np.broadcast_to(values, tensor.shape))
            memory.before_write(0)
            _write_rows(tensor, view, ROUNDERS[tensor.element.name](sums))
            return
        view = view.positions()
    assert isinstance(view, np.ndarray)
    if valid is not None:
        counts = valid if counts is None else counts & valid
    values = np.broadcast_to(values, tensor.shape)
    if counts is not None:
        counts = np.broadcast_to(counts, tensor.shape)
        view, values = view[counts], values[counts]
    places, numbers = np.unique(view, return_inverse=True)
    sums = as_float(read(tensor, (places, None)))
    np.add.at(sums, numbers.reshape(-1), as_float(values).reshape(-1))
    memory.before_write(0)
    rounded = ROUNDERS[tensor.element.name](sums)
    stored = to_bits(rounded, tensor.element) if memory.raw else rounded
    memory.flat(tensor.element)[places] = stored
    memory.mark(places, tensor.element)


def unwritten(tensor: Tensor, where: Place, values: Array) -> Array | None:
    """Which of the values at a place were never written; None if all were."""
    view, _ = where
    memory = tensor.memory
    assert memory is not None
    if isinstance(view, Rows):
        view = view.positions() if memory.written is not None else view.starts
    if isinstance(view, np.ndarray):
        return memory.gathered(view, values, tensor.element)
    return memory.poisoned(values, view)


def counted(places: list[Place], shape: Any, axes: Any = None) -> Array | None:
    """Where every dynamic operand of an instruction is inside its tensor.

    Args:
        shape: of the destination.
        axes: how the instruction permutes its source's axes.
    """
    valid: Array | None = None
    for _, inside in places:
        if inside is None or inside.size != prod(shape):
            continue
        if inside.shape != shape:
            if axes is not None and len(axes) == inside.ndim:
                inside = inside.transpose(axes)
            inside = inside.reshape(shape)
        valid = inside if valid is None else valid & inside
    return valid
