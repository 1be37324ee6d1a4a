"""Indexing and view methods of tensors: every one of them only computes strides."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelopt_lsp.nki.operands import Buffer, OperandType
from accelopt_lsp.profiler.simulator import run_time
from accelopt_lsp.profiler.simulator.abridging_values import LoopIndex, LoopValue, fixed, plain
from accelopt_lsp.profiler.simulator.dynamic import Index
from accelopt_lsp.profiler.simulator.errors import (
    MIXED_INDICES,
    STRIDED_PARTITIONS,
    KernelRejected,
)
from accelopt_lsp.profiler.simulator.faults import IndexFault
from accelopt_lsp.profiler.simulator.indexing import (
    Affine,
    DynamicSlice,
    Form,
    broadcast_grid,
)
from accelopt_lsp.profiler.simulator.masks import Mask
from accelopt_lsp.profiler.simulator.registers import Register
from accelopt_lsp.profiler.simulator.tensors import KEYS, Tensor, extent_of

_RUN_TIME = frozenset({Tensor, run_time.RunTimeIndex})
_PATTERNS: dict[tuple[Any, ...], dict[tuple[Form | None, ...], _Selection]] = {}
"""What affine indices select, by shape, strides and so on of the tensor, then by their forms."""


def _out_of_bounds(dim: int, size: int, text: str) -> KernelRejected:
    return KernelRejected(f"{text} is out of bounds for dimension {dim} of size {size}", "R028")


def select(tensor: Tensor, key: Any) -> Tensor:
    """``tensor[key]``.

    Raises:
        KernelRejected: out of bounds, or index forms that do not mix.
    """
    if key is Ellipsis:
        return tensor
    known = tensor.views
    if (
        known is not None
        and type(key) is tuple
        and key
        and type(key[-1]) in KEYS
        and (len(key) < 2 or type(key[0]) is not LoopValue)
    ):
        try:
            view = known.get(key)
        except TypeError:
            # Slices and arrays have no hash; they are no keys here.
            view = None
        if view is not None:
            return view
    # An index may be all of nl.mgrid[...], which is a kind of tuple.
    parts = key if type(key) is tuple else tuple(key) if isinstance(key, tuple) else (key,)
    for part in parts:
        kind = type(part)
        if kind is slice or kind is int or kind is LoopIndex or kind is LoopValue:
            continue
        if kind is Affine:
            view = advanced(tensor, parts)
            if view.shared and view is not tensor and LoopValue not in map(type, parts):
                if tensor.views is None:
                    tensor.views = {}
                tensor.views[parts] = view
            return view
        if kind in _RUN_TIME:
            return run_time.advanced(tensor, parts, advanced)
        if kind is np.ndarray and part.ndim:
            return run_time.listed(tensor, parts, advanced)
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
    if tensor.dynamic is not None and tensor.dynamic.form and parts[:1] != (slice(None),):
        if parts and parts[0] != slice(0, shape[0]):
            raise KernelRejected("a dimension that is indexed at run time cannot be sliced", "R081")
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
                raise KernelRejected(STRIDED_PARTITIONS, "R082")
            offset += start * stride
            new_shape.append(fixed(count))
            new_strides.append(stride * fixed(step))
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
            if not 0 <= start <= start + part.size <= size:
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
    if isinstance(tensor.fault, IndexFault):
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
    if type(value) is LoopValue:
        return value  # type: ignore[return-value]
    if isinstance(value, int):
        return int(value)
    if hasattr(value, "__index__"):
        return int(value.__index__())
    raise KernelRejected(f"an index must be an integer, got {type(value).__name__}: {value!r}")


def advanced(tensor: Tensor, parts: tuple[Any, ...]) -> Tensor:
    """Affine indices, one a dimension, over their common grid."""
    # Kernels write indices out at every use, so this is the busiest function of a trace: what the
    # forms of the indices select is looked up, and only offsets are added here.
    patterns = tensor.patterns
    if patterns is None:
        key = (tensor.shape, tensor.strides, tensor.buffer, tensor.element.name)
        patterns = tensor.patterns = _PATTERNS.setdefault(key, {})
    forms: tuple[Form | None, ...] = ()
    plane = False
    if len(parts) == 2 and type(parts[0]) is Affine:
        # Nearly all tiles, so without the loops below.
        rows, columns = parts
        row, kind = rows.offset, type(columns)
        if kind is Affine:
            plane, column, forms = True, columns.offset, (rows.form, columns.form)
        elif kind is int or kind is LoopValue:
            plane, column, forms = True, columns, (rows.form, None)
    if not plane:
        special = _unlike(tensor, parts)
        if special is not None:
            return special
        forms = tuple([p.form if type(p) is Affine else None for p in parts])
    pattern = patterns.get(forms)
    if pattern is None:
        if len(parts) != len(tensor.shape):
            raise KernelRejected(
                f"{len(parts)} indices for a tensor with {len(tensor.shape)} dimensions "
                f"{list(tensor.shape)}",
                "R028",
            )
        pattern = patterns[forms] = _pattern(tensor, forms)
    origin = tensor.offset
    if plane:
        (row_stride, low, end), (stride, left, right) = pattern.steps
        offset = origin + row * row_stride + column * stride
        inside = low <= row < end and left <= column < right
    else:
        offset, inside = origin, True
        for part, (stride, low, end) in zip(parts, pattern.steps):  # noqa: B905 - equally many
            number = part.offset if type(part) is Affine else _integer(part)
            offset += number * stride
            if number < low or number >= end:
                inside = False
    if not inside or tensor.dynamic is not None or tensor.fault is not None:
        view = tensor.derived(pattern.shape, pattern.strides, offset)
        if not inside:
            offsets = [p.offset if type(p) is Affine else _integer(p) for p in parts]
            view.fault = _fault(tensor, pattern.shape, forms, offsets)
        return view
    if pattern.whole and offset == origin:
        tensor.shared = True
        return tensor
    memory, element = tensor.memory, tensor.element
    view = Tensor(memory, pattern.shape, pattern.strides, offset, element, tensor.buffer)
    if memory is None or memory.element is not element:
        return view
    length = memory.row
    first, start = divmod(offset, length)
    extent = pattern.extents.get(length)
    if extent is None:
        extent = pattern.extents[length] = extent_of(pattern.shape, pattern.strides, length)
    last = start + extent[1]
    if last < length:
        nbytes = element.nbytes
        row = plain(first)
        view._region = (
            memory.id,
            row,
            row + extent[0] + 1,
            plain(start) * nbytes,
            (plain(last) + 1) * nbytes,
        )
    if tensor.buffer is Buffer.HBM:
        first = 0
    elif plane or None not in forms:
        # Tiles are indexed in the same way again, in HBM hardly anything is. Numbers are no part
        # of a key unless they are last, where their type is seen: 1.0 equals 1 and is no index.
        view.shared = True
    first = fixed(first)
    view.operand = pattern.types.get(first)
    if view.operand is None:
        pattern.types[first] = view.typed()
    return view


def _unlike(tensor: Tensor, parts: tuple[Any, ...]) -> Tensor | None:
    """The view, if indices are not affine; None if they are.

    Raises:
        KernelRejected: there are too few or too many, or kinds that do not mix.
    """
    if len(parts) != len(tensor.shape) and Ellipsis in [p for p in parts if p is Ellipsis]:
        raise KernelRejected(MIXED_INDICES, "R035")
    if len(parts) == len(tensor.shape):
        for part in parts:
            kind = type(part)
            if kind is Affine or kind is int or kind is LoopIndex or kind is LoopValue:
                continue
            if isinstance(part, slice | DynamicSlice) or part is None:
                raise KernelRejected(MIXED_INDICES, "R035")
            if kind in _RUN_TIME:
                return run_time.advanced(tensor, parts, advanced)
            if kind is np.ndarray and part.ndim:
                return run_time.listed(tensor, parts, advanced)
            _integer(part)
    return None


class _Selection:
    """What affine indices of certain forms select of tensors of one kind.

    Attributes:
        shape, strides: of the view.
        steps: for every dimension, its stride, and the least and the end of the offsets at
            which the index stays inside.
        whole: with offsets of 0, the view is all of the tile.
        types: descriptors of the view, by its first partition.
        extents: see :func:`.tensors.extent_of`, by the length of a row.
    """

    __slots__ = ("extents", "shape", "steps", "strides", "types", "whole")

    def __init__(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        steps: tuple[tuple[int, int, int], ...],
        whole: bool,
    ) -> None:
        self.shape = shape
        self.strides = strides
        self.steps = steps
        self.whole = whole
        self.types: dict[int, OperandType] = {}
        self.extents: dict[int, tuple[int, int]] = {}


def _pattern(tensor: Tensor, forms: tuple[Form | None, ...]) -> _Selection:
    shape: tuple[int, ...] = ()
    for form in forms:
        if form is not None:
            shape = broadcast_grid(shape, form.shape)
    rank = len(shape)
    if tensor.buffer is not Buffer.HBM and rank < 2:
        raise KernelRejected(
            "a tile is indexed in two dimensions: write nl.arange(n)[:, None]", "R001"
        )
    strides = [0] * rank
    steps = []
    for dim, (form, stride, size) in enumerate(
        zip(forms, tensor.strides, tensor.shape, strict=True)
    ):
        if form is None:
            steps.append((stride, 0, size))
            continue
        lead = rank - len(form.shape)
        low = high = 0
        for axis, (count, step) in enumerate(zip(form.shape, form.strides, strict=True)):
            if step and count > 1:
                if tensor.buffer is not Buffer.HBM and (dim == 0) != (axis + lead == 0):
                    raise KernelRejected(
                        "the partition dimension must be indexed by the first axis of the "
                        "index, and by nothing else",
                        "R014",
                    )
                if dim == 0 and step != 1 and tensor.buffer is not Buffer.HBM:
                    raise KernelRejected(STRIDED_PARTITIONS, "R082")
            if count > 1:
                strides[axis + lead] += step * stride
                low += min(0, step * (count - 1))
                high += max(0, step * (count - 1))
        steps.append((stride, -low, size - high))
    if tensor.buffer is not Buffer.HBM:
        strides[0] = tensor.strides[0]
    whole = tensor.buffer is not Buffer.HBM and (shape, tuple(strides)) == (
        tensor.shape,
        tensor.strides,
    )
    return _Selection(shape, tuple(strides), tuple(steps), whole)


def _fault(
    tensor: Tensor, shape: tuple[int, ...], forms: tuple[Form | None, ...], offsets: list[int]
) -> IndexFault:
    terms = []
    for dim, (form, offset, size) in enumerate(zip(forms, offsets, tensor.shape, strict=True)):
        strides = (0,) * len(shape)
        if form is not None:
            lead = len(shape) - len(form.shape)
            steps = [0 if n == 1 else s for n, s in zip(form.shape, form.strides, strict=True)]
            strides = (0,) * lead + tuple(steps)
        terms.append((dim, size, offset, strides))
    return IndexFault(shape, tuple(terms))


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
