"""Tensors as kernels see them: views of memory with shape, strides and offset, no copies.

Offsets and strides count elements of the whole allocation; in SBUF and PSUM the stride of
dimension 0 is the number of elements a partition holds.
"""

from __future__ import annotations

import sys
from math import prod
from typing import Any

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer, Dynamic, OperandType, row_major_strides
from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.abridging_values import fixed, plain
from accelopt_lsp.profiler.simulator.elements import ELEMENTS, Array, ElementType
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.indexing import Affine
from accelopt_lsp.profiler.simulator.memory import Memory
from accelopt_lsp.profiler.simulator.overloads import Operators
from accelopt_lsp.profiler.simulator.trace import Region

_TYPES: dict[tuple[Any, ...], OperandType] = {}
KEYS = frozenset({int, Affine})
"""What the last index of a view may be that is found again by its indices."""
_EXTENTS: dict[tuple[Any, ...], tuple[int, int]] = {}


def operand_type(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    element: DType,
    buffer: Buffer,
    start_partition: int,
    dynamic: Dynamic | None = None,
) -> OperandType:
    """The descriptor of a view; equal views share one, so comparing them is cheap."""
    key = (shape, strides, element.name, buffer, start_partition, dynamic)
    found = _TYPES.get(key)
    if found is None:
        first = 0 if buffer is Buffer.HBM else 1
        row_major = row_major_strides(shape)
        inner = _normalised(shape[first:], strides[first:])
        same = inner == _normalised(shape[first:], row_major[first:])
        layout = None if same else (0,) * first + strides[first:]
        made = OperandType(shape, element, buffer, layout, start_partition, dynamic)
        found = _TYPES[key] = _TYPES.setdefault(
            (shape, layout, element.name, buffer, start_partition, dynamic, "interned"), made
        )
    return found


def extent_of(shape: tuple[int, ...], strides: tuple[int, ...], row: int) -> tuple[int, int]:
    """From a view's first element to its last: partitions (rows), and elements within one."""
    rows = inside = 0
    for size, stride in zip(shape, strides, strict=True):
        if stride >= row and stride % row == 0:
            rows += (size - 1) * (stride // row)
        else:
            inside += (size - 1) * stride
    return rows, inside


def _normalised(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides with those of size-1 dimensions blanked, which never matter."""
    return tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))


class Tensor(Operators):
    """A view of one allocation.

    Attributes:
        memory: what it is a view of; None for the result of a call that has not run yet.
        shape: sizes; on chip, dimension 0 is the partition dimension.
        strides: in elements of the allocation.
        offset: in elements of the allocation.
        element: data type.
        buffer: memory it lives in.
        fault: why the view must not be used as it is (index out of bounds), unless a mask
            cuts it short.
        dynamic: what of its addresses is known at run time only (an :class:`~.dynamic.Index`).
        augmented: it is the result of an in-place operator, so that assigning it is no copy.
        patterns: what affine indices select of tensors like it (see :mod:`.views`).
        views: views of it that were selected before, by the indices; None for none yet.
        shared: it is one of these, so that nothing may be noted on it.
    """

    __array_priority__ = 1000.0
    __hash__ = object.__hash__
    __slots__ = (
        "_region",
        "augmented",
        "buffer",
        "dynamic",
        "element",
        "fault",
        "memory",
        "offset",
        "operand",
        "patterns",
        "shape",
        "shared",
        "strides",
        "views",
    )

    def __init__(
        self,
        memory: Memory | None,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        element: DType,
        buffer: Buffer,
    ) -> None:
        self.memory = memory
        self.shape = shape
        self.strides = strides
        self.offset = offset
        self.element = element
        self.buffer = buffer
        self.operand: OperandType | None = None
        self._region: Region | None = None
        self.fault: Any = None
        self.augmented = False
        self.dynamic: Any = None
        self.patterns: dict[Any, Any] | None = None
        self.views: dict[tuple[Any, ...], Tensor] | None = None
        self.shared = False

    # What the simulator needs.

    def typed(self) -> OperandType:
        """Its descriptor; memoised in ``operand``.

        Raises:
            KernelRejected: the view leaves its tensor.
        """
        if self.fault is not None:
            raise KernelRejected(self.fault.describe(), "R028")
        start = 0
        if self.buffer is not Buffer.HBM and self.memory is not None:
            start = fixed(self.offset // self.row)
        dynamic = None if self.dynamic is None else self.dynamic.described()
        found = operand_type(self.shape, self.strides, self.element, self.buffer, start, dynamic)
        self.operand = found
        return found

    def region(self) -> Region:
        """Bounding box in the trace's terms; memoised."""
        known = self._region
        if known is not None:
            return known
        memory = self.memory
        assert memory is not None
        if self.dynamic is not None:
            around: Region = self.dynamic.region(self)
            self._region = around
            return around
        row, nbytes = memory.row, memory.element.nbytes
        if self.element.nbytes != nbytes:
            row, nbytes = self.row, self.element.nbytes
        key = (self.shape, self.strides, row)
        extent = _EXTENTS.get(key)
        if extent is None:
            extent = _EXTENTS[key] = extent_of(self.shape, self.strides, row)
        rows, inside = extent
        first, column = divmod(self.offset, row)
        last = column + inside
        first = plain(first)
        if last < row:
            found = (
                memory.id,
                first,
                first + rows + 1,
                plain(column) * nbytes,
                (plain(last) + 1) * nbytes,
            )
        else:
            found = (memory.id, first, first + rows + 1 + plain(last // row), 0, row * nbytes)
        self._region = found
        return found

    def settle(self) -> Memory:
        """Memory of this view; runs the call it is the result of, if that is still to come."""
        if self.memory is None:
            sessions.active().flush()
        assert self.memory is not None
        return self.memory

    def narrow(self, axis: int, low: int, high: int) -> Tensor:
        """Positions ``low`` to ``high`` of one axis."""
        shape = (*self.shape[:axis], fixed(high - low), *self.shape[axis + 1 :])
        offset = self.offset + low * self.strides[axis]
        view = Tensor(self.memory, shape, self.strides, offset, self.element, self.buffer)
        if self.dynamic is not None:
            view.dynamic = self.dynamic.narrowed(axis, low, high)
        if self.fault is not None:
            view.fault = self.fault.narrowed(axis, low, high)
        return view

    def derived(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Tensor:
        made = Tensor(self.memory, shape, strides, offset, self.element, self.buffer)
        if self.dynamic is not None:
            made.dynamic = self.dynamic.fitted(self.shape, shape)
        if self.fault is not None:
            made.fault = self.fault.of(made)
        return made

    def static(self, offset: int) -> Tensor:
        """The same view at a fixed place."""
        return Tensor(self.memory, self.shape, self.strides, offset, self.element, self.buffer)

    @property
    def row(self) -> int:
        """Elements of a partition (a row in HBM) of the allocation, in the view's own type."""
        assert self.memory is not None
        if self.element is self.memory.element:
            return self.memory.row
        return self.memory.row * self.memory.element.nbytes // self.element.nbytes

    def array(self) -> Array:
        """NumPy view of the carrier (full mode only)."""
        assert self.memory is not None
        return self.memory.view(self)

    def again(self) -> Tensor:
        """Another view of the same."""
        made = Tensor(self.memory, self.shape, self.strides, self.offset, self.element, self.buffer)
        made.operand, made._region = self.operand, self._region
        made.fault, made.dynamic = self.fault, self.dynamic
        return made

    def same_place(self, other: Tensor) -> bool:
        """Whether both views address the same elements."""
        return (
            self.memory is other.memory
            and self.offset == other.offset
            and self.shape == other.shape
            and self.strides == other.strides
        )

    def copied(self, number: int) -> Tensor:
        """A tile like this one, in another storage that exists already."""
        old = self.settle()
        memory = Memory(number, old.buffer, old.element, old.rows, old.row, old.name, old.line)
        memory.initial, memory.state, memory.block = old.initial, old.state, old.block
        made = Tensor(memory, self.shape, self.strides, self.offset, self.element, self.buffer)
        made.operand = self.operand
        return made

    def contiguous(self) -> bool:
        """Contiguous memory (on chip: within a partition)."""
        first = 0 if self.buffer is Buffer.HBM else 1
        return _normalised(self.shape[first:], self.strides[first:]) == _normalised(
            self.shape[first:], row_major_strides(self.shape)[first:]
        )

    # What kernels use.

    @property
    def dtype(self) -> ElementType:
        return ELEMENTS[self.element]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return self.element.nbytes

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def name(self) -> str:
        return self.settle().name

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        sizes = ",".join(map(str, self.shape))
        return f"{self.element.short}[{sizes}] in {self.buffer.upper()}"

    def __bool__(self) -> bool:
        allocated = self.memory is not None and sessions.active().dialect is Dialect.CURRENT
        if self.buffer is Buffer.HBM or allocated:
            # Kernels ask so whether an optional argument was given.
            return True
        raise KernelRejected(
            "a tensor cannot decide control flow: its values exist on the device only; "
            "compare with None by `is None`",
            "R005",
        )

    def __iter__(self) -> Any:
        raise KernelRejected("a tensor cannot be iterated over; loop over indices", "R005")

    def __getitem__(self, key: Any) -> Tensor:
        if self.memory is None:
            self.settle()
        return views.select(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        sessions.active().assign(self, key, value, sys._getframe(1))

    # Views without a copy, in the names of either dialect.

    def reshape(self, *shape: Any) -> Tensor:
        self.settle()
        return layouts.reshape(self, layouts.sizes_of(shape))

    def broadcast_to(self, *shape: Any) -> Any:
        return sessions.active().broadcast(self, layouts.sizes_of(shape))

    def broadcast(self, dim: int, size: int) -> Tensor:
        self.settle()
        return layouts.broadcast(self, dim, size)

    def permute(self, *dims: Any) -> Tensor:
        self.settle()
        return layouts.permute(self, layouts.sizes_of(dims))

    def expand_dim(self, dim: int) -> Tensor:
        self.settle()
        return layouts.expand_dim(self, dim)

    def expand_dims(self, axis: int) -> Tensor:
        return self.expand_dim(axis)

    def squeeze_dim(self, dim: int) -> Tensor:
        self.settle()
        return layouts.squeeze_dim(self, dim)

    def reshape_dim(self, dim: int, shape: Any) -> Tensor:
        self.settle()
        return layouts.reshape_dim(self, dim, tuple(shape))

    def flatten_dims(self, start_dim: int, end_dim: int) -> Tensor:
        self.settle()
        return layouts.flatten_dims(self, start_dim, end_dim)

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> Tensor:
        self.settle()
        return views.slice_dim(self, dim, start, end, step)

    def select(self, dim: int, index: Any) -> Tensor:
        self.settle()
        return views.select_dim(self, dim, index)

    def vector_select(self, dim: int, vector_offset: Any) -> Tensor:
        self.settle()
        return run_time.vector_select(self, dim, vector_offset)

    def indirect(self, index: Any, num_elem: int | None = None) -> Tensor:
        self.settle()
        return run_time.indirect(self, index, num_elem)

    def view(self, dtype: Any) -> Tensor:
        self.settle()
        return layouts.reinterpret(self, dtype)

    reinterpret_cast = view

    def rearrange(self, src_pattern: Any, dst_pattern: Any, fixed_sizes: Any = None) -> Tensor:
        self.settle()
        return layouts.rearrange(self, src_pattern, dst_pattern, fixed_sizes or {})

    def get_pattern(self) -> list[list[int]]:
        """``[[stride, count], ...]``, as :meth:`ap` takes it."""
        self.settle()
        return [[s, n] for s, n in zip(self.strides, self.shape, strict=True)]

    def is_indirect(self) -> bool:
        """Whether a run-time index is part of the view."""
        return self.dynamic is not None

    def ap(
        self,
        pattern: Any,
        offset: int | None = None,
        scalar_offset: Any = None,
        vector_offset: Any = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> Tensor:
        self.settle()
        return run_time.access_pattern(
            self, pattern, offset or 0, scalar_offset, vector_offset, indirect_dim, dtype
        )

    def is_contiguous(self) -> bool:
        return self.contiguous()

    def assert_shape(self, shape: Any) -> Tensor:
        """Legacy: fail unless the shape is this one."""
        if tuple(shape) != self.shape:
            raise KernelRejected(f"shape is {list(self.shape)}, asserted was {list(shape)}", "R006")
        return self

    def astype(self, dtype: Any) -> Any:
        """Legacy: a copy in another data type."""
        return sessions.active().copy(self, dtype)


from accelopt_lsp.profiler.simulator import layouts, run_time, views  # noqa: E402 - made of tensors
