"""Views whose place is known at run time only, in the names of either dialect."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from accelopt_lsp.nki.operands import Buffer, DynamicKind
from accelopt_lsp.profiler.simulator.dynamic import Index
from accelopt_lsp.profiler.simulator.elements import as_dtype
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.indexing import Affine
from accelopt_lsp.profiler.simulator.registers import Register
from accelopt_lsp.profiler.simulator.tensors import Tensor


def offset_of(source: Any, stride: int, limit: int | None) -> tuple[int, Index | None]:
    """A run-time offset as elements that are known now, and an index for what is not.

    Raises:
        KernelRejected: neither a register nor one number in SBUF.
    """
    if isinstance(source, Register):
        if source.frozen and source.value is not None:
            return source.integer("an index") * stride, Index(DynamicKind.REGISTER, Register(0))
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
    tile = _vector(offsets)
    rows = tile.shape[0]
    view = tensor.derived((rows, *tensor.shape[1:]), (0, *tensor.strides[1:]), tensor.offset)
    form = (rows, *(1,) * (view.ndim - 1))
    index = Index(DynamicKind.VECTOR, tile, tensor.strides[0], tensor.shape[0], form)
    return with_index(view, index)


def _vector(offsets: Any) -> Tensor:
    if not isinstance(offsets, Tensor):
        raise KernelRejected(f"vector offsets are a tile, got {type(offsets).__name__}", "R083")
    offsets.settle()
    if offsets.buffer is not Buffer.SBUF or prod(offsets.shape[1:]) != 1:
        raise KernelRejected(
            f"vector offsets are a [P, 1] tile in SBUF, got {offsets}; one offset a partition",
            "R083",
        )
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
    offset: int,
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
    start += int(offset)
    if scalar is not None and vector is not None:
        raise KernelRejected("scalar_offset and vector_offset cannot be combined", "R083")
    stride = 0
    if scalar is not None or vector is not None:
        stride = int(tensor.strides[int(indirect_dim)] * scale)
    index = None
    if scalar is not None:
        moved, index = offset_of(scalar, stride, None)
        start += moved
    elif vector is not None:
        tile = _vector(vector)
        if tensor.buffer is not Buffer.HBM or indirect_dim != 0:
            raise KernelRejected("vector_offset needs a tensor in HBM and indirect_dim=0", "R083")
        if tile.shape[0] != shape[0]:
            raise KernelRejected(
                f"vector_offset has {tile.shape[0]} offsets for {shape[0]} rows", "R083"
            )
        strides = (0, *strides[1:])
        form = (shape[0], *(1,) * (len(shape) - 1))
        index = Index(DynamicKind.VECTOR, tile, stride, None, form)
    while len(shape) < 2 and tensor.buffer is not Buffer.HBM:
        shape, strides = (*shape, 1), (*strides, 1)
    view = Tensor(memory, shape, strides, start, element, tensor.buffer)
    _check_pattern(view, dynamic=index is not None)
    return with_index(view, index)


def _check_pattern(view: Tensor, *, dynamic: bool) -> None:
    row = view.row
    if view.buffer is not Buffer.HBM and view.strides[0] != row and view.shape[0] > 1:
        raise KernelRejected(
            f"the first stride on chip is the free size {row}, got {view.strides[0]}", "R082"
        )
    low = high = view.offset
    for size, stride in zip(view.shape, view.strides, strict=True):
        low, high = low + min(0, stride * (size - 1)), high + max(0, stride * (size - 1))
    assert view.memory is not None
    total = view.memory.rows * row
    if low < 0 or (high >= total and not dynamic):
        raise KernelRejected(f"elements {low} to {high} leave an allocation of {total}", "R028")


def advanced(tensor: Tensor, parts: tuple[Any, ...], static: Any) -> Tensor:
    """``t[tile, i_f]``: a tile of indices among affine ones (legacy dialect).

    Args:
        static: indexing by affine indices alone.

    Raises:
        KernelRejected: more than one tile among the indices.
    """
    at = [n for n, part in enumerate(parts) if isinstance(part, Tensor)]
    if len(at) > 1:
        raise KernelRejected("one index can be a tile, the others must be affine", "R036")
    dim = at[0]
    tile: Tensor = parts[dim]
    tile.settle()
    if tile.buffer is Buffer.HBM:
        raise KernelRejected("indices must be in SBUF; load them first", "R036")
    if len(parts) != tensor.ndim:
        raise KernelRejected(
            f"{len(parts)} indices for a tensor with {tensor.ndim} dimensions", "R028"
        )
    flat = Affine(tile.shape, (0,) * tile.ndim, 0)
    view: Tensor = static(tensor, (*parts[:dim], flat, *parts[dim + 1 :]))
    form = (1,) * (view.ndim - tile.ndim) + tile.shape
    kind = DynamicKind.VECTOR if tile.size > 1 else DynamicKind.SCALAR
    return with_index(view, Index(kind, tile, tensor.strides[dim], tensor.shape[dim], form))


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
