"""Views whose place is known at run time only, in the names of either dialect."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from accelopt_lsp.nki.dtypes import Kind
from accelopt_lsp.nki.operands import Buffer, DynamicKind, outside_text
from accelopt_lsp.profiler.simulator.abridging_values import LoopValue
from accelopt_lsp.profiler.simulator.dynamic import Index
from accelopt_lsp.profiler.simulator.elements import Array, as_dtype
from accelopt_lsp.profiler.simulator.errors import (
    MIXED_INDICES,
    STRIDED_PARTITIONS,
    KernelRejected,
)
from accelopt_lsp.profiler.simulator.faults import pattern_fault
from accelopt_lsp.profiler.simulator.indexing import Affine, decide
from accelopt_lsp.profiler.simulator.masks import Mask
from accelopt_lsp.profiler.simulator.registers import Register
from accelopt_lsp.profiler.simulator.tensors import Tensor

_HERE = Register(0, frozen=True)
"""The index of a view whose register is known: the view is in its place already."""


def offset_of(source: Any, stride: int, limit: int | None) -> tuple[int, Index | None]:
    """A run-time offset as elements that are known now, and an index for what is not.

    Raises:
        KernelRejected: neither a register nor one number in SBUF.
    """
    if isinstance(source, Register):
        if source.frozen and source.value is not None:
            return source.integer("an index") * stride, Index(DynamicKind.REGISTER, _HERE)
        return 0, Index(DynamicKind.REGISTER, source, stride, limit)
    if isinstance(source, Tensor):
        source.settle()
        if source.buffer is Buffer.PSUM:
            raise KernelRejected("run-time offsets are read from SBUF, not from PSUM", "R034")
        if source.size != 1:
            raise KernelRejected(
                f"a scalar offset is one number, this tile has shape {list(source.shape)}; use "
                "vector_offset for one a partition",
                "R083",
            )
        if source.element.kind is Kind.FLOAT:
            raise KernelRejected(
                f"run-time offsets are integers, this one is {source.element}", "R083"
            )
        return 0, Index(DynamicKind.SCALAR, source, stride, limit)
    if isinstance(source, int | np.integer):
        return int(source) * stride, None
    raise KernelRejected(
        f"a run-time offset is a register or a [1, 1] tile, got {type(source).__name__}", "R083"
    )


def with_index(view: Tensor, index: Index | None) -> Tensor:
    """Attach a run-time index to a view.

    Raises:
        KernelRejected: it has one already.
    """
    if index is None:
        return view
    if view.dynamic is not None:
        raise KernelRejected("a view can have one run-time index only", "R083")
    decide()
    view.dynamic = index
    view.operand = view._region = None
    return view


def select(tensor: Tensor, dim: int, source: Any) -> Tensor:
    """One position of a dimension, given by a register or a number in SBUF."""
    at = dim + tensor.ndim if dim < 0 else dim
    if not 0 <= at < tensor.ndim:
        raise KernelRejected(f"dimension {dim} of a tensor with {tensor.ndim} dimensions", "R028")
    on_chip = tensor.buffer is not Buffer.HBM
    if at == 0 and on_chip:
        raise KernelRejected("the partition dimension cannot be indexed at run time", "R083")
    moved, index = offset_of(source, tensor.strides[at], tensor.shape[at])
    shape = (*tensor.shape[:at], *tensor.shape[at + 1 :])
    strides = (*tensor.strides[:at], *tensor.strides[at + 1 :])
    while len(shape) < (2 if on_chip else 1):
        shape, strides = (*shape, 1), (*strides, 1)
    return with_index(tensor.derived(shape, strides, tensor.offset + moved), index)


def vector_select(tensor: Tensor, dim: int, offsets: Any) -> Tensor:
    """Row ``offsets[p]`` of a tensor in HBM for every partition ``p``.

    Raises:
        KernelRejected: not dimension 0, not in HBM, or the offsets are no ``[P, 1]`` tile.
    """
    if dim != 0 or tensor.buffer is not Buffer.HBM:
        raise KernelRejected("vector_select takes dimension 0 of a tensor in HBM", "R083")
    tile = _vector(offsets, None)
    rows = tile.shape[0]
    view = tensor.derived((rows, *tensor.shape[1:]), (0, *tensor.strides[1:]), tensor.offset)
    form = (rows, *(1,) * (view.ndim - 1))
    index = Index(DynamicKind.VECTOR, tile, tensor.strides[0], tensor.shape[0], form=form)
    return with_index(view, index)


def _vector(offsets: Any, rows: int | None) -> Tensor:
    """A tile of offsets, one a partition; for many rows column after column of a wide one."""
    if not isinstance(offsets, Tensor):
        raise KernelRejected(f"vector offsets are a tile, got {type(offsets).__name__}", "R083")
    offsets.settle()
    wide = rows is not None and offsets.size > offsets.shape[0]
    if offsets.buffer is not Buffer.SBUF or (prod(offsets.shape[1:]) != 1 and not wide):
        raise KernelRejected(
            f"vector offsets are a [P, 1] tile in SBUF, got {offsets}; one offset a partition",
            "R083",
        )
    if rows is not None and (offsets.size < rows if wide else offsets.size != rows):
        raise KernelRejected(
            f"vector_offset has {offsets.size} offsets for {rows} rows of the pattern; slice "
            "one to the other",
            "R083",
        )
    if offsets.element.kind is Kind.FLOAT:
        raise KernelRejected(f"run-time offsets are integers, these are {offsets.element}", "R083")
    return offsets


def indirect(tensor: Tensor, index: Any, count: int | None) -> Tensor:
    """Columns of a tile by a table of offsets (NeuronCore-v4)."""
    if not isinstance(index, Tensor) or tensor.buffer is Buffer.HBM:
        raise KernelRejected("indirect takes a tile of offsets and applies to tiles on chip")
    index.settle()
    if index.shape[0] != tensor.shape[0]:
        raise KernelRejected(
            f"indirect: the index has {index.shape[0]} partitions, the tile {tensor.shape[0]}",
            "R024",
        )
    number = index.size if count is None else int(count)
    view = tensor.derived((tensor.shape[0], number), (tensor.strides[0], 0), tensor.offset)
    found = Index(DynamicKind.GATHER, index, tensor.strides[-1], prod(tensor.shape[1:]))
    return with_index(view, found)


def access_pattern(
    tensor: Tensor,
    pattern: Any,
    offset: Any,
    scalar: Any,
    vector: Any,
    indirect_dim: int,
    dtype: Any,
) -> Tensor:
    """``ap([[stride, count], ...])`` over the storage, from the view's own offset on.

    Raises:
        KernelRejected: the pattern leaves the allocation, or breaks the rules of the hardware.
    """
    memory = tensor.settle()
    shape = tuple(int(count) for _, count in pattern)
    strides = tuple(int(stride) for stride, _ in pattern)
    element = tensor.element if dtype is None else as_dtype(dtype)
    if element is None:
        raise KernelRejected(f"{dtype!r} is no data type of NKI")
    start, scale = tensor.offset, 1.0
    if element is not tensor.element:
        scale = tensor.element.nbytes / element.nbytes
        start = int(start * scale)
    start += offset if type(offset) is LoopValue else int(offset)
    if scalar is not None and vector is not None:
        raise KernelRejected(
            "scalar_offset and vector_offset cannot be combined; add the one to the other first",
            "R083",
        )
    stride = 0
    if scalar is not None or vector is not None:
        stride = int(tensor.strides[int(indirect_dim)] * scale)
    index = None
    if scalar is not None:
        moved, index = offset_of(scalar, stride, None)
        start += moved
    elif vector is not None:
        tile = _vector(vector, shape[0])
        if tensor.buffer is not Buffer.HBM or indirect_dim != 0:
            raise KernelRejected("vector_offset needs a tensor in HBM and indirect_dim=0", "R083")
        strides = (0, *strides[1:])
        form = (shape[0], *(1,) * (len(shape) - 1))
        index = Index(DynamicKind.VECTOR, tile, stride, None, form=form)
    while len(shape) < 2 and tensor.buffer is not Buffer.HBM:
        shape, strides = (*shape, 1), (*strides, 1)
    if element is not memory.element:
        memory.expose()
    view = Tensor(memory, shape, strides, start, element, tensor.buffer)
    _check_partitions(view)
    if index is None:
        # Kernels make views past the last tile of a loop that nothing uses.
        view.fault = pattern_fault(view)
    return with_index(view, index)


def _check_partitions(view: Tensor) -> None:
    if view.buffer is not Buffer.HBM and view.strides[0] != view.row and view.shape[0] > 1:
        raise KernelRejected(
            f"the first stride on chip is the free size {view.row}, got {view.strides[0]}", "R082"
        )


def advanced(tensor: Tensor, parts: tuple[Any, ...], static: Any) -> Tensor:
    """``t[tile, i_f]``: a tile of indices among affine ones (legacy dialect).

    Args:
        static: indexing by affine indices alone.

    Raises:
        KernelRejected: more than one tile among the indices.
    """
    at = [n for n, part in enumerate(parts) if isinstance(part, Tensor | RunTimeIndex)]
    if len(at) > 1:
        raise KernelRejected("one index can be a tile, the others must be affine", "R083")
    dim = at[0]
    given = parts[dim]
    if isinstance(given, Tensor):
        given = RunTimeIndex(given, Affine((1,) * given.ndim, (0,) * given.ndim, 0))
    tile, shift = given.tile, given.shift
    tile.settle()
    if tile.buffer is not Buffer.SBUF:
        raise KernelRejected(
            f"indices must be in SBUF, these are in {tile.buffer.upper()}; load them first", "R083"
        )
    if len(parts) != tensor.ndim:
        raise KernelRejected(
            f"{len(parts)} indices for a tensor with {tensor.ndim} dimensions", "R028"
        )
    single = tile.size == 1
    if not single and prod(tile.shape[1:]) != 1:
        raise KernelRejected(
            f"indices of shape {list(tile.shape)}: one index a partition is what a DMA takes; "
            "index the tile with nl.arange(n)[:, None], not with nl.mgrid",
            "R017",
        )
    if not single and tensor.buffer is not Buffer.HBM:
        raise KernelRejected(
            "several run-time indices address a tensor in HBM by load, store or DMA; within a "
            "tile use nisa.tensor_copy_dynamic_src with one index, or nl.gather_flattened",
            "R011",
        )
    rank = max(p.ndim for p in (tile, shift, *parts) if isinstance(p, Tensor | Affine))
    own = tile.shape
    if not single and len(own) < rank:
        # The partitions of the index are those of the view: its first axis.
        own = (tile.shape[0], *(1,) * (rank - 1))
    grid = Affine(own, (0,) * len(own), 0) + shift
    # Bounds of what is added to the index are checked together with it.
    base = grid - grid.offset
    wide = Tensor(
        tensor.memory, tensor.shape, tensor.strides, tensor.offset, tensor.element, tensor.buffer
    )
    wide.dynamic = tensor.dynamic
    view: Tensor = static(wide, (*parts[:dim], base, *parts[dim + 1 :]))
    low, high = grid.reach()
    if view.fault is not None:
        terms = tuple(t for t in view.fault.terms if t[0] != dim)
        view.fault = type(view.fault)(view.fault.shape, terms)
        if not view.fault.describe():
            view.fault = None
    view.offset += grid.offset * tensor.strides[dim]
    form = () if single else (1,) * (view.ndim - len(own)) + own
    index = Index(
        DynamicKind.SCALAR if single else DynamicKind.VECTOR,
        tile,
        tensor.strides[dim],
        tensor.shape[dim],
        (low, high),
        form,
    )
    return with_index(view, index)


class RunTimeIndex:
    """A number in SBUF plus an affine index, as in ``offsets[0, i] + i_f`` (legacy dialect).

    Attributes:
        tile: the number, or one a partition.
        shift: what is added to it.
    """

    __array_priority__ = 1000.0
    __slots__ = ("shift", "tile")

    def __init__(self, tile: Tensor, shift: Affine) -> None:
        self.tile = tile
        self.shift = shift

    def __add__(self, other: Any) -> RunTimeIndex:
        if not isinstance(other, int | np.integer | Affine):
            return NotImplemented
        return RunTimeIndex(self.tile, self.shift + other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> RunTimeIndex:
        if not isinstance(other, int | np.integer | Affine):
            return NotImplemented
        return RunTimeIndex(self.tile, self.shift - other)


def combined(name: str, left: Any, right: Any) -> RunTimeIndex:
    """An operator between a tile and an affine index.

    Raises:
        KernelRejected: the tile is neither added to nor subtracted from.
    """
    if name == "nl.add":
        tile, shift = (left, right) if isinstance(left, Tensor) else (right, left)
        return RunTimeIndex(tile, shift)
    if name == "nl.subtract" and isinstance(left, Tensor):
        return RunTimeIndex(left, -right)
    raise KernelRejected(
        f"{name} of a tile and an index: only a sum of both is an index; to compute with the "
        "numbers themselves write them to a tile with nisa.iota",
        "R033",
    )


def listed(tensor: Tensor, parts: tuple[Any, ...], static: Any) -> Tensor:
    """``t[i // 4, i % 4]``: static indices that no strides describe (legacy dialect).

    Args:
        static: indexing by affine indices alone.

    Raises:
        KernelRejected: an index leaves its dimension, or partitions are not taken in order.
    """
    if len(parts) != tensor.ndim:
        raise KernelRejected(
            f"{len(parts)} indices for a tensor with {tensor.ndim} dimensions", "R028"
        )
    values = []
    for part in parts:
        if isinstance(part, slice) or part is None or part is Ellipsis:
            raise KernelRejected(MIXED_INDICES, "R035")
        array: Array = part.values() if isinstance(part, Affine) else np.asarray(part)
        if array.dtype.kind not in "iu":
            raise KernelRejected(f"an index must be an integer, got {array.dtype}", "R033")
        values.append(array)
    shape: tuple[int, ...] = np.broadcast_shapes(*[v.shape for v in values])
    affine = [_as_affine(v) for v in values]
    if all(form is not None for form in affine):
        found: Tensor = static(tensor, tuple(affine))
        return found
    for dim, (value, size) in enumerate(zip(values, tensor.shape, strict=True)):
        low, high = int(value.min()), int(value.max())
        if low < 0 or high >= size:
            raise KernelRejected(outside_text(low, high, dim, size), "R028")
    strides = [0] * len(shape)
    positions: Array = np.zeros(shape, dtype=np.int64)
    for value, stride in zip(values, tensor.strides, strict=True):
        positions = positions + value.astype(np.int64) * stride
    origin = int(positions.reshape(-1)[0])
    positions = positions - origin
    for axis in range(len(shape)):
        steps = np.diff(positions, axis=axis)
        if steps.size and (steps == steps.reshape(-1)[0]).all():
            strides[axis] = int(steps.reshape(-1)[0])
        if strides[axis] or not steps.size or not steps.any():
            positions = np.take(positions, [0], axis=axis)
    if tensor.buffer is not Buffer.HBM:
        if len(shape) < 2 or positions.shape[0] != 1 or affine[0] is None:
            raise KernelRejected(
                "the partition dimension must be indexed by the first axis of the index, in order",
                "R014",
            )
        if shape[0] > 1 and strides[0] != tensor.strides[0]:
            raise KernelRejected(STRIDED_PARTITIONS, "R082")
        strides[0] = tensor.strides[0]
    view = tensor.derived(shape, tuple(strides), tensor.offset + origin)
    return with_index(view, Index(DynamicKind.LISTED, form=positions.shape, listed=positions))


def _as_affine(values: Any) -> Affine | None:
    """The affine index that has these values, if there is one."""
    strides = []
    for axis in range(values.ndim):
        steps = np.diff(values, axis=axis)
        if steps.size and not (steps == steps.reshape(-1)[0]).all():
            return None
        strides.append(int(steps.reshape(-1)[0]) if steps.size else 0)
    return Affine(values.shape, tuple(strides), int(values.reshape(-1)[0]))


def masked_operand(tensor: Tensor, mask: Mask) -> Tensor:
    """``tile[i_f <= 64]``: elements where the mask fails are not read (legacy dialect).

    Raises:
        KernelRejected: the mask has other axes than the tile.
    """
    shape = tensor.shape
    for term in mask.terms:
        lead = len(shape) - term.ndim
        if lead < 0 or any(
            size not in (1, n) for size, n in zip(term.shape, shape[lead:], strict=True)
        ):
            raise KernelRejected(
                f"a mask over {list(term.shape)} does not fit a tile of shape {list(shape)}", "R033"
            )
    view = Tensor(
        tensor.memory, shape, tensor.strides, tensor.offset, tensor.element, tensor.buffer
    )
    view.dynamic = tensor.dynamic
    return with_index(view, Index(DynamicKind.MASKED, terms=mask.terms))


def masked(view: Tensor, terms: tuple[Affine, ...]) -> Tensor:
    """A view whose indices leave their tensor only where a mask over several axes fails.

    Raises:
        KernelRejected: they leave it elsewhere too.
    """
    fault = view.fault
    valid = np.ones((1,) * view.ndim, dtype=bool)
    for term in terms:
        valid = valid & (term.values() >= 0)
    for dim, size, offset, strides in fault.terms:
        found = Affine(fault.shape, strides, offset).values()
        if (((found < 0) | (found >= size)) & valid).any():
            raise KernelRejected(
                f"the mask leaves indices of dimension {dim} (size {size}) outside; "
                + fault.describe(),
                "R028",
            )
    made = view.static(view.offset)
    return with_index(made, Index(DynamicKind.MASKED, terms=terms))
