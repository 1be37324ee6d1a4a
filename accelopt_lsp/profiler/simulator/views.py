"""Indexing and view methods of tensors: every one of them only computes strides."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from accelopt_lsp.nki.operands import Buffer, row_major_strides
from accelopt_lsp.profiler.simulator import run_time
from accelopt_lsp.profiler.simulator.dynamic import Index
from accelopt_lsp.profiler.simulator.elements import as_dtype
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.indexing import (
    Affine,
    ArangeVector,
    DynamicSlice,
    LoopIndex,
    broadcast_grid,
)
from accelopt_lsp.profiler.simulator.masks import Mask
from accelopt_lsp.profiler.simulator.registers import Register
from accelopt_lsp.profiler.simulator.tensors import Tensor

_RUN_TIME = frozenset({Tensor, run_time.RunTimeIndex})
_PATTERNS: dict[tuple[Any, ...], tuple[Any, ...]] = {}


class IndexFault:
    """An index that leaves its dimension; a mask may cut it short before it is used.

    Attributes:
        terms: (dimension, size, offset, strides along the view's axes, view's shape).
    """

    __slots__ = ("shape", "terms")

    def __init__(
        self, shape: tuple[int, ...], terms: tuple[tuple[int, int, int, tuple[int, ...]], ...]
    ) -> None:
        self.shape = shape
        self.terms = terms

    def narrowed(self, axis: int, low: int, high: int) -> IndexFault | None:
        """The same after cutting an axis; None when all indices are inside."""
        shape = (*self.shape[:axis], high - low, *self.shape[axis + 1 :])
        terms = tuple(
            (dim, size, offset + low * strides[axis], strides)
            for dim, size, offset, strides in self.terms
        )
        left = IndexFault(shape, terms)
        return left if left.describe() else None

    def describe(self) -> str:
        """The first index outside, or an empty string."""
        for dim, size, offset, strides in self.terms:
            low, high = _reach(offset, strides, self.shape)
            if low < 0 or high >= size:
                return (
                    f"index {low} to {high} leaves dimension {dim} of size {size}; "
                    "mask the call or shorten the index"
                )
        return ""


def _reach(offset: int, strides: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, int]:
    low = high = offset
    for stride, size in zip(strides, shape, strict=True):
        if stride > 0:
            high += stride * (size - 1)
        else:
            low += stride * (size - 1)
    return low, high


def _out_of_bounds(dim: int, size: int, text: str) -> KernelRejected:
    return KernelRejected(f"{text} is out of bounds for dimension {dim} of size {size}", "R028")


def select(tensor: Tensor, key: Any) -> Tensor:
    """``tensor[key]``.

    Raises:
        KernelRejected: out of bounds, or index forms that do not mix.
    """
    if key is Ellipsis:
        return tensor
    # An index may be all of nl.mgrid[...], which is a kind of tuple.
    parts = key if type(key) is tuple else tuple(key) if isinstance(key, tuple) else (key,)
    for part in parts:
        kind = type(part)
        if kind is slice or kind is int or kind is LoopIndex:
            continue
        if kind is Affine or kind is ArangeVector:
            return _advanced(tensor, parts)
        if kind in _RUN_TIME:
            return run_time.advanced(tensor, parts, _advanced)
        if kind is np.ndarray and part.ndim:
            return run_time.listed(tensor, parts, _advanced)
        if kind is Mask:
            return run_time.masked_operand(tensor, part)
        if kind is Register:
            return _basic(tensor, parts)
    return _basic(tensor, parts)


def _basic(tensor: Tensor, parts: tuple[Any, ...]) -> Tensor:
    shape, strides = tensor.shape, tensor.strides
    rank = len(shape)
    given = len(parts)
    at = -1
    for number, part in enumerate(parts):
        if part is None:
            given -= 1
        elif part is Ellipsis:
            at = number
    if at >= 0:
        fill = rank - (given - 1)
        parts = (*parts[:at], *([slice(None)] * fill), *parts[at + 1 :])
    elif given > rank:
        raise KernelRejected(
            f"{given} indices for a tensor with {rank} dimensions {list(shape)}", "R028"
        )
    on_chip = tensor.buffer is not Buffer.HBM
    offset = tensor.offset
    new_shape: list[int] = []
    new_strides: list[int] = []
    index: Index | None = None
    dim = 0
    for part in parts:
        if part is None:
            if on_chip and dim == 0:
                raise KernelRejected("no dimension can stand before the partitions", "R014")
            new_shape.append(1)
            new_strides.append(0)
            continue
        size, stride = shape[dim], strides[dim]
        if type(part) is slice:
            start, stop, step = part.start, part.stop, part.step
            if (
                type(start) is int
                and type(stop) is int
                and step is None
                and (0 <= start < stop <= size)
            ):
                offset += start * stride
                new_shape.append(stop - start)
                new_strides.append(stride)
                dim += 1
                continue
            if start is None and stop is None and step is None:
                new_shape.append(size)
                new_strides.append(stride)
                dim += 1
                continue
            start, count, step = _slice_bounds(dim, size, start, stop, step)
            if step != 1 and on_chip and dim == 0:
                raise KernelRejected("partitions cannot be strided", "R082")
            offset += start * stride
            new_shape.append(count)
            new_strides.append(stride * step)
        elif isinstance(part, DynamicSlice) and isinstance(part.start, Register | Tensor):
            moved, index = run_time.offset_of(part.start, stride, size - part.size + 1)
            offset += moved
            new_shape.append(part.size)
            new_strides.append(stride)
        elif isinstance(part, Register):
            moved, index = run_time.offset_of(part, stride, size)
            offset += moved
            if on_chip and dim == 0:
                new_shape.append(1)
                new_strides.append(stride)
        elif isinstance(part, DynamicSlice):
            start = _integer(part.start)
            if not 0 <= start <= start + part.size <= size or part.size < 1:
                raise _out_of_bounds(dim, size, f"nl.ds({start}, {part.size})")
            offset += start * stride
            new_shape.append(part.size)
            new_strides.append(stride)
        else:
            number = _integer(part)
            position = number + size if number < 0 else number
            if not 0 <= position < size:
                raise _out_of_bounds(dim, size, f"index {number}")
            offset += position * stride
            if on_chip and dim == 0:
                new_shape.append(1)
                new_strides.append(stride)
        dim += 1
    new_shape.extend(shape[dim:])
    new_strides.extend(strides[dim:])
    while len(new_shape) < (2 if on_chip else 1):
        new_shape.append(1)
        new_strides.append(1)
    view = tensor.derived(tuple(new_shape), tuple(new_strides), offset)
    view.fault = tensor.fault
    return view if index is None else run_time.with_index(view, index)


def _slice_bounds(dim: int, size: int, start: Any, stop: Any, step: Any) -> tuple[int, int, int]:
    first = 0 if start is None else _integer(start)
    last = size if stop is None else _integer(stop)
    pace = 1 if step is None else _integer(step)
    if pace < 1:
        raise KernelRejected(f"slices run forward; step {pace} does not", "R028")
    if first < 0:
        first += size
    if last < 0:
        last += size
    if first < 0 or last > size:
        raise _out_of_bounds(dim, size, f"slice {start}:{stop}")
    if first >= last:
        raise KernelRejected(f"slice {start}:{stop} of dimension {dim} is empty", "R028")
    return first, (last - first + pace - 1) // pace, pace


def _integer(value: Any) -> int:
    if isinstance(value, int):
        return int(value)
    if hasattr(value, "__index__"):
        return int(value.__index__())
    raise KernelRejected(f"an index must be an integer, got {type(value).__name__}: {value!r}")


def _advanced(tensor: Tensor, parts: tuple[Any, ...]) -> Tensor:
    """Affine indices, one a dimension, over their common grid."""
    if len(parts) != len(tensor.shape):
        if Ellipsis in [p for p in parts if p is Ellipsis]:
            raise KernelRejected("slices and nl.arange indices cannot be mixed", "R035")
        raise KernelRejected(
            f"{len(parts)} indices for a tensor with {len(tensor.shape)} dimensions "
            f"{list(tensor.shape)}",
            "R028",
        )
    # Kernels write indices out at every use, so this is the busiest loop of a trace.
    element = tensor.element
    found: list[Any] = [tensor.shape, tensor.strides, tensor.buffer, element.name]
    offsets: list[int] = []
    for part in parts:
        kind = type(part)
        if kind is Affine or kind is ArangeVector:
            found.append(part.shape)
            found.append(part.strides)
            offsets.append(part.offset)
        elif kind is int or kind is LoopIndex:
            found.append(None)
            offsets.append(part)
        elif kind is Tensor:
            return run_time.advanced(tensor, parts, _advanced)
        elif isinstance(part, slice | DynamicSlice) or part is None:
            raise KernelRejected("slices and nl.arange indices cannot be mixed", "R035")
        elif kind in _RUN_TIME:
            return run_time.advanced(tensor, parts, _advanced)
        elif kind is np.ndarray and part.ndim:
            return run_time.listed(tensor, parts, _advanced)
        else:
            found.append(None)
            offsets.append(_integer(part))
    key = tuple(found)
    pattern = _PATTERNS.get(key)
    if pattern is None:
        pattern = _PATTERNS[key] = _pattern(tensor, _forms(parts))
    shape, strides, reaches, types = pattern
    offset = tensor.offset
    inside = True
    for number, stride, (low, high, size) in zip(  # noqa: B905 - equal by construction
        offsets, tensor.strides, reaches
    ):
        offset += number * stride
        if number + low < 0 or number + high >= size:
            inside = False
    view = tensor.derived(shape, strides, offset)
    memory = tensor.memory
    if not inside:
        view.fault = _fault(tensor, shape, _forms(parts), offsets)
    elif view.dynamic is None and memory is not None and memory.element is element:
        start = 0 if tensor.buffer is Buffer.HBM else offset // memory.row
        view.operand = types.get(start)
        if view.operand is None:
            types[start] = view.typed()
    return view


def _forms(parts: tuple[Any, ...]) -> list[Any]:
    """Grid and strides of every index; None for integers."""
    return [(p.shape, p.strides) if isinstance(p, Affine) else None for p in parts]


def _pattern(tensor: Tensor, forms: list[Any]) -> tuple[Any, ...]:
    shape: tuple[int, ...] = ()
    for form in forms:
        if form is not None:
            shape = broadcast_grid(shape, form[0])
    rank = len(shape)
    if tensor.buffer is not Buffer.HBM and rank < 2:
        raise KernelRejected(
            "a tile is indexed in two dimensions: write nl.arange(n)[:, None]", "R001"
        )
    strides = [0] * rank
    reaches = []
    for dim, (form, stride, size) in enumerate(
        zip(forms, tensor.strides, tensor.shape, strict=True)
    ):
        if form is None:
            reaches.append((0, 0, size))
            continue
        lead = rank - len(form[0])
        low = high = 0
        for axis, (count, step) in enumerate(zip(*form, strict=True)):
            if step and count > 1:
                if tensor.buffer is not Buffer.HBM and (dim == 0) != (axis + lead == 0):
                    raise KernelRejected(
                        "the partition dimension must be indexed by the first axis of the "
                        "index, and by nothing else",
                        "R014",
                    )
                if dim == 0 and step != 1 and tensor.buffer is not Buffer.HBM:
                    raise KernelRejected("partitions cannot be strided", "R082")
            if count > 1:
                strides[axis + lead] += step * stride
                low += min(0, step * (count - 1))
                high += max(0, step * (count - 1))
        reaches.append((low, high, size))
    if tensor.buffer is not Buffer.HBM:
        strides[0] = tensor.strides[0]
    return shape, tuple(strides), tuple(reaches), {}


def _fault(
    tensor: Tensor, shape: tuple[int, ...], forms: list[Any], offsets: list[int]
) -> IndexFault:
    terms = []
    for dim, (form, offset, size) in enumerate(zip(forms, offsets, tensor.shape, strict=True)):
        strides = (0,) * len(shape)
        if form is not None:
            lead = len(shape) - len(form[0])
            steps = [0 if n == 1 else s for n, s in zip(*form, strict=True)]
            strides = (0,) * lead + tuple(steps)
        terms.append((dim, size, offset, strides))
    return IndexFault(shape, tuple(terms))


def sizes_of(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes given as one sequence or as several integers."""
    given = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return tuple(int(n) for n in given)


def reshape(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The same elements in another shape, without moving any.

    Raises:
        KernelRejected: element counts differ, partitions would move, or it needs a copy.
    """
    if -1 in shape:
        known = -prod(shape)
        shape = tuple(tensor.size // known if n == -1 else n for n in shape)
    if prod(shape) != tensor.size:
        raise KernelRejected(
            f"cannot reshape {list(tensor.shape)} into {list(shape)}: element counts differ",
            "R080",
        )
    if tensor.buffer is not Buffer.HBM:
        if shape[0] != tensor.shape[0]:
            raise KernelRejected(
                f"reshape must keep the {tensor.shape[0]} partitions, got {list(shape)}", "R080"
            )
        inner = _merge(tensor.shape[1:], tensor.strides[1:], shape[1:])
        return tensor.derived(shape, (tensor.strides[0], *inner), tensor.offset)
    return tensor.derived(shape, _merge(tensor.shape, tensor.strides, shape), tensor.offset)


def _merge(old: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a reshape without copy."""
    dims = [(n, s) for n, s in zip(old, strides, strict=True) if n != 1]
    result: list[int] = []
    position = 0
    size, stride = (1, 1)
    merged: list[tuple[int, int]] = []
    for n, s in dims:
        if merged and merged[-1][1] == n * s:
            merged[-1] = (merged[-1][0] * n, s)
        else:
            merged.append((n, s))
    remaining = list(merged)
    pending: list[int] = []
    for n in new:
        if n == 1:
            result.append(0)
            pending.append(len(result) - 1)
            continue
        if size == 1:
            if position >= len(remaining):
                raise KernelRejected("this reshape would move data", "R080")
            size, stride = remaining[position]
            position += 1
        if size % n:
            raise KernelRejected("this reshape would move data; copy the tile first", "R080")
        size //= n
        result.append(stride * size)
    for at in pending:
        result[at] = 1
    return tuple(result)


def _free_dim(tensor: Tensor, dim: int) -> int:
    index = dim + tensor.ndim if dim < 0 else dim
    if not 0 <= index < tensor.ndim:
        raise KernelRejected(f"dimension {dim} of a tensor with {tensor.ndim} dimensions", "R028")
    if index == 0 and tensor.buffer is not Buffer.HBM:
        raise KernelRejected("view methods cannot touch the partition dimension", "R081")
    return index


def broadcast(tensor: Tensor, dim: int, size: int) -> Tensor:
    """Repeat a dimension of size 1 by stride 0."""
    at = _free_dim(tensor, dim)
    if tensor.shape[at] != 1:
        raise KernelRejected(f"only a dimension of size 1 broadcasts, {dim} has {tensor.shape[at]}")
    shape = (*tensor.shape[:at], int(size), *tensor.shape[at + 1 :])
    strides = (*tensor.strides[:at], 0, *tensor.strides[at + 1 :])
    return tensor.derived(shape, strides, tensor.offset)


def permute(tensor: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Reorder dimensions."""
    if sorted(dims) != list(range(tensor.ndim)):
        raise KernelRejected(f"permute{dims} does not name every dimension once", "R081")
    if tensor.buffer is not Buffer.HBM and dims[0] != 0:
        raise KernelRejected("permute must leave the partition dimension first", "R081")
    return tensor.derived(
        tuple(tensor.shape[d] for d in dims), tuple(tensor.strides[d] for d in dims), tensor.offset
    )


def expand_dim(tensor: Tensor, dim: int) -> Tensor:
    """Insert a dimension of size 1."""
    at = dim + tensor.ndim + 1 if dim < 0 else dim
    if at == 0 and tensor.buffer is not Buffer.HBM:
        raise KernelRejected("no dimension can stand before the partitions", "R081")
    shape = (*tensor.shape[:at], 1, *tensor.shape[at:])
    strides = (*tensor.strides[:at], 1, *tensor.strides[at:])
    return tensor.derived(shape, strides, tensor.offset)


def squeeze_dim(tensor: Tensor, dim: int) -> Tensor:
    """Drop a dimension of size 1."""
    at = _free_dim(tensor, dim)
    if tensor.shape[at] != 1:
        raise KernelRejected(f"dimension {dim} has size {tensor.shape[at]}, not 1", "R081")
    shape = (*tensor.shape[:at], *tensor.shape[at + 1 :])
    strides = (*tensor.strides[:at], *tensor.strides[at + 1 :])
    return tensor.derived(shape, strides, tensor.offset)


def reshape_dim(tensor: Tensor, dim: int, sizes: tuple[int, ...]) -> Tensor:
    """Split one dimension."""
    at = _free_dim(tensor, dim)
    if -1 in sizes:
        known = -prod(sizes)
        sizes = tuple(tensor.shape[at] // known if n == -1 else n for n in sizes)
    if prod(sizes) != tensor.shape[at]:
        raise KernelRejected(f"{list(sizes)} does not split {tensor.shape[at]}", "R080")
    inner = tuple(s * tensor.strides[at] for s in row_major_strides(sizes))
    shape = (*tensor.shape[:at], *sizes, *tensor.shape[at + 1 :])
    strides = (*tensor.strides[:at], *inner, *tensor.strides[at + 1 :])
    return tensor.derived(shape, strides, tensor.offset)


def flatten_dims(tensor: Tensor, start: int, end: int) -> Tensor:
    """Merge dimensions ``start`` to ``end``, both included."""
    first, last = _free_dim(tensor, start), _free_dim(tensor, end)
    shape = (*tensor.shape[:first], prod(tensor.shape[first : last + 1]), *tensor.shape[last + 1 :])
    return reshape(tensor, shape)


def slice_dim(tensor: Tensor, dim: int, start: int, end: int, step: int) -> Tensor:
    """Positions ``start`` to ``end`` of one dimension."""
    at = dim + tensor.ndim if dim < 0 else dim
    return _basic(tensor, (*[slice(None)] * at, slice(start, end, step)))


def select_dim(tensor: Tensor, dim: int, index: Any) -> Tensor:
    """One position of a dimension."""
    if isinstance(index, Tensor | Register):
        return run_time.select(tensor, dim, index)
    at = dim + tensor.ndim if dim < 0 else dim
    return _basic(tensor, (*[slice(None)] * at, index))


def reinterpret(tensor: Tensor, dtype: Any) -> Tensor:
    """The same bits as another data type; the last dimension shrinks or grows accordingly.

    Raises:
        KernelRejected: the last dimension is not contiguous, or does not divide.
    """
    element = as_dtype(dtype)
    if element is None:
        raise KernelRejected(f"{dtype!r} is no data type of NKI")
    if tensor.dynamic is not None:
        raise KernelRejected("a view with a run-time index cannot change its type", "R083")
    old, new = tensor.element.nbytes, element.nbytes
    shape, strides, offset = tensor.shape, tensor.strides, tensor.offset
    if old != new:
        if shape[-1] > 1 and strides[-1] != 1:
            raise KernelRejected("view(dtype) needs a contiguous last dimension", "R081")
        if shape[-1] * old % new:
            raise KernelRejected(
                f"view(dtype): {shape[-1]} elements of {old} bytes are no whole number of "
                f"elements of {new} bytes",
                "R081",
            )
        if any(s * old % new for s in strides[:-1]) or offset * old % new:
            raise KernelRejected("view(dtype): rows do not start at whole elements", "R081")
        shape = (*shape[:-1], shape[-1] * old // new)
        strides = (*[s * old // new for s in strides[:-1]], 1)
        offset = offset * old // new
    memory = tensor.settle()
    if element is not memory.element:
        memory.expose()
    return Tensor(memory, shape, strides, offset, element, tensor.buffer)


def rearrange(tensor: Tensor, source: Any, target: Any, sizes: dict[str, int]) -> Tensor:
    """Split, reorder and merge dimensions by name: ``(("b", ("h", "w")), ("b", "w", "h"))``.

    Raises:
        KernelRejected: names that do not match, or data would have to move.
    """
    groups = [g if isinstance(g, tuple | list) else (g,) for g in source]
    if len(groups) != tensor.ndim:
        raise KernelRejected(
            f"rearrange: {len(groups)} groups for {tensor.ndim} dimensions", "R081"
        )
    named: dict[str, tuple[int, int]] = {}
    for group, size, stride in zip(groups, tensor.shape, tensor.strides, strict=True):
        known = [sizes.get(name, -1) for name in group]
        if known.count(-1) > 1:
            raise KernelRejected(f"rearrange: give the size of all but one of {group}", "R081")
        rest = prod(n for n in known if n != -1)
        parts = [size // max(rest, 1) if n == -1 else n for n in known]
        if prod(parts) != size:
            raise KernelRejected(f"rearrange: {parts} does not split {size}", "R080")
        for name, part, step in zip(group, parts, row_major_strides(tuple(parts)), strict=True):
            named[name] = (part, step * stride)
    wanted = [g if isinstance(g, tuple | list) else (g,) for g in target]
    if sorted(n for g in wanted for n in g) != sorted(named):
        raise KernelRejected("rearrange: both patterns must name the same dimensions", "R081")
    flat = [named[n] for g in wanted for n in g]
    spread = tensor.derived(tuple(n for n, _ in flat), tuple(s for _, s in flat), tensor.offset)
    return reshape(spread, tuple(prod(named[n][0] for n in g) for g in wanted))
