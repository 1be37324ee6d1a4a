"""Index expressions of kernels: affine forms of ``nl.arange`` and ``nl.mgrid``, ``nl.ds``.

An affine index over a broadcast grid is ``offset + sum(stride[a] * position[a])``; a tuple of
them addresses a strided view at once, whatever the number of elements.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.masks import Mask
from accelopt_lsp.profiler.simulator.registers import Register


class LoopIndex(int):
    """The value of a loop variable; an integer that knows where its loop is.

    Attributes:
        first, last: its loop is in its first or last iteration.
    """

    first: bool = False
    last: bool = False


def broadcast_grid(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy broadcasting of two index grids.

    Raises:
        KernelRejected: they do not go together.
    """
    if first == second:
        return first
    rank = max(len(first), len(second))
    left = (1,) * (rank - len(first)) + first
    right = (1,) * (rank - len(second)) + second
    shape = []
    for a, b in zip(left, right, strict=True):
        if a != b and a != 1 and b != 1:
            raise KernelRejected(
                f"index grids {list(first)} and {list(second)} do not broadcast", "R027"
            )
        shape.append(b if a == 1 else a)
    return tuple(shape)


class Affine:
    """An affine index over a grid.

    Attributes:
        shape: grid, axes of size 1 included.
        strides: change of the index along each axis.
        offset: index at the grid's origin.
    """

    __array_priority__ = 100.0
    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("offset", "shape", "strides")

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
        self.shape = shape
        self.strides = strides
        self.offset = offset

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"index{list(self.shape)}"

    def __bool__(self) -> bool:
        raise KernelRejected(
            "an index made of nl.arange or nl.mgrid cannot decide control flow; use a mask",
            "R010",
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        raise KernelRejected("an index cannot be assigned to; use nisa.iota", "R008")

    def __getitem__(self, key: Any) -> Affine:
        """Insert axes of size 1, as in ``nl.arange(128)[:, None]``."""
        parts = key if isinstance(key, tuple) else (key,)
        if Ellipsis in parts:
            at = parts.index(Ellipsis)
            kept = sum(p is not None for p in parts) - 1
            parts = (*parts[:at], *[slice(None)] * (self.ndim - kept), *parts[at + 1 :])
        shape, strides, axis = [], [], 0
        offset = self.offset
        for part in parts:
            if part is None:
                shape.append(1)
                strides.append(0)
                continue
            if axis >= self.ndim:
                raise KernelRejected(f"too many axes for an index of shape {list(self.shape)}")
            size, stride = self.shape[axis], self.strides[axis]
            if isinstance(part, slice):
                start, stop, step = part.indices(size)
                shape.append(max(0, (stop - start + step - 1) // step))
                strides.append(stride * step)
                offset += start * stride
            else:
                offset += int(part) * stride
            axis += 1
        shape.extend(self.shape[axis:])
        strides.extend(self.strides[axis:])
        return Affine(tuple(shape), tuple(strides), offset)

    def reshape(self, *shape: Any) -> Affine:
        """Axes of size 1 may be inserted or dropped."""
        wanted = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        kept = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n != 1]
        strides = []
        for size in wanted:
            strides.append(0 if size == 1 else kept.pop(0)[1])
        return Affine(tuple(wanted), tuple(strides), self.offset)

    def values(self) -> Array:
        """All indices, as an int64 array of the grid's shape."""
        total: Array = np.full((1,) * len(self.shape), self.offset, dtype=np.int64)
        for axis, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            form = [1] * len(self.shape)
            form[axis] = size
            total = total + (np.arange(size, dtype=np.int64) * stride).reshape(form)
        return np.broadcast_to(total, self.shape)

    def reach(self) -> tuple[int, int]:
        """Least and largest index."""
        low = high = self.offset
        for size, stride in zip(self.shape, self.strides, strict=True):
            low, high = low + min(0, stride * (size - 1)), high + max(0, stride * (size - 1))
        return low, high

    def _plus(self, other: Any, sign: int) -> Any:
        if isinstance(other, int | np.integer):
            return Affine(self.shape, self.strides, self.offset + sign * int(other))
        if not isinstance(other, Affine):
            if isinstance(other, np.ndarray):
                return self.values() + sign * other
            return NotImplemented
        shape = broadcast_grid(self.shape, other.shape)
        rank = len(shape)
        left = (0,) * (rank - self.ndim) + self.strides
        right = (0,) * (rank - other.ndim) + other.strides
        strides = tuple([a + sign * b for a, b in zip(left, right, strict=True)])
        return Affine(shape, strides, self.offset + sign * other.offset)

    def __add__(self, other: Any) -> Any:
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._plus(other, -1)

    def __neg__(self) -> Affine:
        return Affine(self.shape, tuple([-s for s in self.strides]), -self.offset)

    def __rsub__(self, other: Any) -> Any:
        return (-self)._plus(other, 1)

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, int | np.integer):
            if isinstance(other, np.ndarray):
                raise KernelRejected("an index is not a product of two indices", "R033")
            return NotImplemented
        factor = int(other)
        return Affine(self.shape, tuple([s * factor for s in self.strides]), self.offset * factor)

    __rmul__ = __mul__

    def _not_affine(self, other: Any) -> Any:
        if isinstance(other, int | np.integer):
            return None
        raise KernelRejected("an index must be affine in nl.arange and loop variables", "R033")

    def __floordiv__(self, other: Any) -> Any:
        self._not_affine(other)
        return self.values() // int(other)

    def __mod__(self, other: Any) -> Any:
        self._not_affine(other)
        return self.values() % int(other)

    def _compare(self, other: Any, sign: int, shift: int) -> Any:
        difference = self._plus(other, -1)
        if difference is NotImplemented:
            return NotImplemented
        return Mask((difference * sign + shift,))

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, 1, 0)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, 1, -1)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, -1, 0)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, -1, -1)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, int | np.integer | Affine):
            return NotImplemented
        return self.__ge__(other) & self.__le__(other)

    def __ne__(self, other: object) -> Any:
        raise KernelRejected("a mask cannot use !=; combine < and > by two instructions", "R033")


_RANGES: dict[tuple[int, ...], Affine] = {}


def arange(*args: int) -> Affine:
    """``nl.arange([start,] stop[, step])``: an index vector."""
    found = _RANGES.get(args)
    if found is None:
        numbers = tuple(int(a) for a in args)
        if not 1 <= len(numbers) <= 3:
            raise KernelRejected(f"nl.arange takes 1 to 3 numbers, got {len(numbers)}")
        span = range(*numbers)
        if len(span) == 0:
            raise KernelRejected(f"nl.arange{numbers} is empty")
        found = _RANGES[args] = ArangeVector((len(span),), (span.step,), span.start)
    return found


class ArangeVector(Affine):
    """What ``nl.arange`` returns; remembers its expansions, which kernels write out each time."""

    __slots__ = ("_expanded", "column", "line")

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
        super().__init__(shape, strides, offset)
        self._expanded: dict[tuple[bool, ...], Affine] = {}
        self.column = Affine((*shape, 1), (*strides, 0), offset)
        self.line = Affine((1, *shape), (0, *strides), offset)

    def __getitem__(self, key: Any) -> Affine:
        if type(key) is tuple:
            if len(key) == 2:
                # nl.arange(n)[:, None] and [None, :], by far the most frequent.
                first, second = key
                if second is None and type(first) is slice and first == _FULL_SLICE:
                    return self.column
                if first is None and type(second) is slice and second == _FULL_SLICE:
                    return self.line
            pattern = tuple([part is None for part in key])
            found = self._expanded.get(pattern)
            if found is not None and _FULL_SLICE in key:
                return found
            expanded = super().__getitem__(key)
            if _FULL_SLICE in key:
                self._expanded[pattern] = expanded
            return expanded
        return super().__getitem__(key)


_FULL_SLICE = slice(None)


class Grid(tuple[Affine, ...]):
    """What ``nl.mgrid[...]`` returns: one index an axis, also as ``.p``, ``.x``, ``.y``, ``.z``."""

    __slots__ = ()

    @property
    def p(self) -> Affine:
        return self[0]

    @property
    def x(self) -> Affine:
        return self._axis(1, "x")

    @property
    def y(self) -> Affine:
        return self._axis(2, "y")

    @property
    def z(self) -> Affine:
        return self._axis(3, "z")

    @property
    def w(self) -> Affine:
        return self._axis(4, "w")

    def _axis(self, number: int, name: str) -> Affine:
        if number >= len(self):
            raise KernelRejected(f"this grid has {len(self)} axes, no .{name}")
        return self[number]


class MeshGrid:
    """``nl.mgrid``."""

    def __getitem__(self, key: Any) -> Grid:
        parts = key if isinstance(key, tuple) else (key,)
        spans = []
        for part in parts:
            if not isinstance(part, slice) or part.stop is None:
                raise KernelRejected(
                    "nl.mgrid takes slices with an end, as in nl.mgrid[0:128, 0:512]"
                )
            spans.append(range(int(part.start or 0), int(part.stop), int(part.step or 1)))
        shape = tuple(len(s) for s in spans)
        if 0 in shape:
            raise KernelRejected(f"nl.mgrid of shape {list(shape)} is empty")
        axes = []
        for number, span in enumerate(spans):
            strides = tuple(span.step if a == number else 0 for a in range(len(spans)))
            axes.append(Affine(shape, strides, span.start))
        return Grid(axes)


class DynamicSlice:
    """``nl.ds(start, size)``."""

    __slots__ = ("size", "start")

    def __init__(self, start: Any, size: Any) -> None:
        self.start = start
        self.size = int(size)


def loop_range(*args: Any, **kwargs: Any) -> Iterator[LoopIndex]:
    """``nl.affine_range`` and its siblings: ``(stop)``, ``(start, stop[, step])``."""
    numbers = [kwargs[k] if k in kwargs else None for k in ("start", "stop", "step")]
    for position, value in enumerate(args):
        numbers[position] = value
    start, stop, step = numbers
    if stop is None:
        start, stop = 0, start
    for value in (start, stop, step):
        if isinstance(value, Register):
            raise KernelRejected(
                "this loop is unrolled when the kernel is compiled, so its bounds cannot be "
                "registers; use nl.fori_loop",
                "R084",
            )
        if value is not None and not isinstance(value, int | np.integer):
            raise KernelRejected(f"loop bounds must be integers, got {value!r}")
    return counted(range(int(start or 0), int(stop), int(1 if step is None else step)))


_NEST: list[LoopIndex] = []


def loop_depth() -> int:
    """Number of ``nl`` loops that are running."""
    return len(_NEST)


def running_loops() -> list[LoopIndex]:
    """Variables of the ``nl`` loops that are running, outermost first."""
    return _NEST


def counted(span: range) -> Iterator[LoopIndex]:
    """Run a loop; each iteration's place is noted in the trace."""
    depth = len(_NEST)
    final = len(span) - 1
    session = sessions._current
    iterations: array[int] | None = None
    records: Sequence[Any] = ()
    if session is not None and session.tracing:
        iterations, records = session.trace.iterations, session.records
    start = -1
    try:
        for number, value in enumerate(span):
            index = LoopIndex(value)
            if number == 0:
                index.first = True
                _NEST.append(index)
            else:
                _NEST[depth] = index
            if number == final:
                index.last = True
            if iterations is None:
                yield index
                continue
            start = len(records)
            yield index
            iterations.extend((depth, value, start, len(records)))
            start = -1
    finally:
        if iterations is not None and start >= 0:
            # Left by break, return or an error.
            iterations.extend((depth, value, start, len(records)))
        del _NEST[depth:]
