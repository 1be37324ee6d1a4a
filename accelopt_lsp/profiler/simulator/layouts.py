"""Methods of tensors that give the same elements another form; only strides change."""

from __future__ import annotations

from math import prod
from typing import Any

from accelopt_lsp.nki.operands import Buffer, row_major_strides
from accelopt_lsp.profiler.simulator.elements import as_dtype
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.tensors import Tensor


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
            f"cannot reshape {list(tensor.shape)} into {list(shape)}: element counts differ, keep "
            f"{tensor.size}",
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
    if index == 0:
        _check_rows(tensor, "this method")
    return index


def _check_rows(tensor: Tensor, name: str) -> None:
    """Rows that are indexed one by one stay the first dimension.

    Raises:
        KernelRejected: they would not.
    """
    if tensor.dynamic is not None and tensor.dynamic.form:
        raise KernelRejected(
            f"{name} cannot move or change the dimension that a vector of offsets indexes", "R081"
        )


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
    if dims[0] != 0:
        _check_rows(tensor, "permute")
    return tensor.derived(
        tuple(tensor.shape[d] for d in dims), tuple(tensor.strides[d] for d in dims), tensor.offset
    )


def expand_dim(tensor: Tensor, dim: int) -> Tensor:
    """Insert a dimension of size 1."""
    at = dim + tensor.ndim + 1 if dim < 0 else dim
    if not 0 <= at <= tensor.ndim:
        raise KernelRejected(f"dimension {dim} of a tensor with {tensor.ndim} dimensions", "R028")
    if at == 0:
        _check_rows(tensor, "expand_dim")
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
    if tuple(sizes) in ((tensor.shape[dim],), (-1,)):
        return tensor
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
    view = Tensor(memory, shape, strides, offset, element, tensor.buffer)
    if tensor.fault is not None:
        view.fault = tensor.fault.of(view)
    return view


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
    if not tensor.buffer.on_chip and wanted[0] != groups[0]:
        _check_rows(tensor, "rearrange")
    if tensor.buffer.on_chip and (len(groups[0]) != 1 or tuple(wanted[0]) != tuple(groups[0])):
        raise KernelRejected(
            f"rearrange must leave the partition dimension {groups[0]} first and whole", "R081"
        )
    flat = [named[n] for g in wanted for n in g]
    spread = tensor.derived(tuple(n for n, _ in flat), tuple(s for _, s in flat), tensor.offset)
    return reshape(spread, tuple(prod(named[n][0] for n in g) for g in wanted))
