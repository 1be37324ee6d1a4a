"""Index expressions of kernels: affine forms of ``nl.arange`` and ``nl.mgrid``, ``nl.ds``.

An affine index over a broadcast grid is ``offset + sum(stride[a] * position[a])``; a tuple of
them addresses a strided view at once, whatever the number of elements.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import cache
from types import FrameType
from typing import Any

import numpy as np

from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.abridging_values import LoopIndex, LoopValue, fixed
from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.masks import Mask
from accelopt_lsp.profiler.simulator.registers import Register


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


_MANY = 1 << 16
"""Indices of one form that are kept; a kernel with more of them starts over."""


class Form:
    """Grid and strides of affine indices, the same object for all that have them.

    Kernels write their indices out at every use, and an iteration only moves them. So an index
    is looked up by form and offset rather than made, equal ones are one object, and whatever was
    found out about either (the view it selects, where it is a mask) is found again by identity.
    """

    __slots__ = ("_made", "_sums", "find", "multiples", "shape", "strides")

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.shape = shape
        self.strides = strides
        self._made: dict[int, Affine] = {}
        self.find = self._made.get
        self.multiples: dict[int, Form] = {}
        self._sums: dict[tuple[Form, int], Form] = {}

    def at(self, offset: Any) -> Affine:
        """The index with this offset."""
        if type(offset) is LoopValue:
            # An abridged loop moves it, so it is like no other.
            return self._new(offset)
        found = self.find(offset)
        if found is None:
            if len(self._made) >= _MANY:
                self._made.clear()
            offset = int(offset)
            found = self._made[offset] = self._new(offset)
        return found

    def _new(self, offset: Any) -> Affine:
        made = object.__new__(Affine)
        made.form = self
        made.shape, made.strides, made.offset = self.shape, self.strides, offset
        made._mask = made._column = made._line = None
        return made

    def times(self, factor: int) -> Form:
        """Form of a multiple."""
        found = self.multiples.get(factor)
        if found is None:
            strides = tuple([s * factor for s in self.strides])
            found = self.multiples[factor] = form_of(self.shape, strides)
        return found

    def plus(self, other: Form, sign: int) -> Form:
        """Form of a sum or difference over the common grid."""
        found = self._sums.get((other, sign))
        if found is None:
            shape = broadcast_grid(self.shape, other.shape)
            rank = len(shape)
            left = (0,) * (rank - len(self.shape)) + self.strides
            right = (0,) * (rank - len(other.shape)) + other.strides
            strides = tuple([a + sign * b for a, b in zip(left, right, strict=True)])
            found = self._sums[(other, sign)] = form_of(shape, strides)
        return found


_FORMS: dict[tuple[tuple[int, ...], tuple[int, ...]], Form] = {}


def form_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> Form:
    """The form with this grid and these strides."""
    found = _FORMS.get((shape, strides))
    if found is None:
        shape, strides = tuple([int(n) for n in shape]), tuple([int(n) for n in strides])
        found = _FORMS[(shape, strides)] = Form(shape, strides)
    return found


class Affine:
    """An affine index over a grid. Equal ones are the same object (see :class:`Form`).

    Attributes:
        form: grid and strides.
        shape: grid, axes of size 1 included.
        strides: change of the index along each axis.
        offset: index at the grid's origin.
    """

    __array_priority__ = 100.0
    # By identity, which is what equal ones share: ``==`` makes a mask.
    __hash__ = object.__hash__
    __slots__ = ("_column", "_line", "_mask", "form", "offset", "shape", "strides")

    form: Form
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    _column: Affine | None
    _line: Affine | None
    _mask: Mask | None

    def __new__(  # noqa: PYI034 - no subclass could be shared
        cls, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
    ) -> Affine:
        return form_of(shape, strides).at(offset)

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
        # These two are by far the most frequent, so they are remembered.
        if key == _COLUMN:
            found = self._column
            if found is None:
                found = self._column = self._expanded(key)
            return found
        if key == _LINE:
            found = self._line
            if found is None:
                found = self._line = self._expanded(key)
            return found
        return self._expanded(key)

    def _expanded(self, key: Any) -> Affine:
        spread = None
        if type(key) is tuple and len(self.shape) == 1 and _FULL_SLICE in key:
            spread = (self, tuple([part is None for part in key]))
            known = _EXPANDED.get(spread)
            if known is not None:
                return known
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
        expanded = Affine(tuple(shape), tuple(strides), offset)
        if spread is not None and type(offset) is int:
            _EXPANDED[spread] = expanded
        return expanded

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
        total: Array = np.full((1,) * len(self.shape), fixed(self.offset), dtype=np.int64)
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
        if type(other) is LoopValue:
            return self.form.at(self.offset + sign * other)
        if isinstance(other, int | np.integer):
            return self.form.at(self.offset + sign * int(other))
        if not isinstance(other, Affine):
            if isinstance(other, np.ndarray):
                return self.values() + sign * other
            return NotImplemented
        return self.form.plus(other.form, sign).at(self.offset + sign * other.offset)

    def __add__(self, other: Any) -> Any:
        kind = type(other)
        if kind is int or kind is LoopIndex:
            offset = self.offset + other
            found = self.form.find(offset) if type(offset) is int else None
            return self.form.at(offset) if found is None else found
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._plus(other, -1)

    def __neg__(self) -> Affine:
        return self.form.times(-1).at(-self.offset)

    def __rsub__(self, other: Any) -> Any:
        return (-self)._plus(other, 1)

    def __mul__(self, other: Any) -> Any:
        if type(other) is not int:
            if not isinstance(other, int | np.integer):
                if isinstance(other, np.ndarray):
                    raise KernelRejected("an index is not a product of two indices", "R033")
                return NotImplemented
            other = int(other)
        form = self.form.multiples.get(other)
        if form is None:
            form = self.form.times(other)
        offset = self.offset * other
        found = form.find(offset) if type(offset) is int else None
        return form.at(offset) if found is None else found

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
        difference = self if type(other) is int and other == 0 else self._plus(other, -1)
        if difference is NotImplemented:
            return NotImplemented
        term = difference if sign == 1 else difference * sign
        if shift:
            term = term + shift
        if type(term) is not Affine:
            return Mask((term,))
        mask = term._mask
        if mask is None:
            mask = term._mask = Mask((term,))
        return mask

    def __ge__(self, other: Any) -> Any:
        if self._mask is not None and type(other) is int and other == 0:
            return self._mask
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


def arange(*args: int) -> Affine:
    """``nl.arange([start,] stop[, step])``: an index vector."""
    return _arange(*map(fixed, args))


@cache
def _arange(*args: int) -> Affine:
    numbers = tuple(int(a) for a in args)
    if not 1 <= len(numbers) <= 3:
        raise KernelRejected(f"nl.arange takes 1 to 3 numbers, got {len(numbers)}")
    span = range(*numbers)
    if len(span) == 0:
        raise KernelRejected(f"nl.arange{numbers} is empty")
    return Affine((len(span),), (span.step,), span.start)


_FULL_SLICE = slice(None)
_COLUMN = (_FULL_SLICE, None)
_LINE = (None, _FULL_SLICE)
_EXPANDED: dict[tuple[Affine, tuple[bool, ...]], Affine] = {}
"""Index vectors, and where axes of size 1 were put around them, to what came of it."""


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
    if len(args) == 1 and type(args[0]) is int and not kwargs:
        return _loop(range(args[0]), sys._getframe(1))
    numbers: list[Any] = [kwargs[k] if k in kwargs else None for k in ("start", "stop", "step")]
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
    span = range(int(start or 0), int(stop), int(1 if step is None else step))
    return _loop(span, sys._getframe(1))


def _loop(span: range, frame: FrameType) -> Iterator[Any]:
    session = sessions._current
    if session is None or session.abridging is None:
        return counted(span)
    return session.abridging.loop(span, frame)


def decide() -> None:
    """Something depends on the iteration of every running loop, in a way nobody follows."""
    for index in _NEST:
        fixed(index)


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
    run = None if session is None or session.abridging is None else object()
    try:
        for number, value in enumerate(span):
            index = LoopIndex(value)
            index.run = run
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
