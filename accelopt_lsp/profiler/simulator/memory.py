"""Memory of a simulated core: what one allocation holds, and whether it was ever written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator.bits import STORAGE, from_bits, to_bits
from accelopt_lsp.profiler.simulator.elements import (
    CARRIERS,
    INTEGER_POISON,
    POISON_BITS,
    ROUNDERS,
    Array,
)

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.tensors import Tensor

FRESH, PARTIAL, FULL = 0, 1, 2
"""Never written; written in part, poison elsewhere; written throughout."""


class Pool:
    """Buffers that are free again, by size: new tiles take them instead of fresh pages."""

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free: dict[int, list[Array]] = {}

    def take(self, count: int, carrier: np.dtype[Any]) -> Array:
        """An uninitialised flat array."""
        free = self._free.get(count * carrier.itemsize)
        if free:
            return free.pop().view(carrier)
        return _empty(count, carrier)

    def give(self, array: Array) -> None:
        """Take back an array that nobody uses any more."""
        self._free.setdefault(array.nbytes, []).append(array)


class Memory:
    """One allocation: ``rows`` partitions (rows in HBM) of ``row`` elements each.

    Attributes:
        id: storage id in the trace.
        buffer: memory.
        element: data type.
        array: flat carrier of all elements, allocated with the first write; None when only
            shapes are traced.
        state: whether it was written.
        masked: parts were left unwritten on purpose, by a mask.
        quiet: reading those parts needs no remark, since a mask drops what comes of it.
        initial: value of every element before the first write; None for no value.
        constant: contents were given when it was made, and stay.
        pool: where released buffers go.
        products: PSUM regions that a matrix product was written to since the allocation.
        known: which elements have values while only shapes are traced; None for none.
        raw: the array holds the device's bytes rather than carriers, since views read or write
            them as other data types.
        written: which elements (bytes, if raw) were written, where poison cannot tell; None
            where all were, or poison tells.
        left: regions that elements holding nothing were stored to, which of theirs these are, and
            on which line; in HBM only.
        origin: where elements holding nothing came from last, for messages.
        special: it is raw or has a map of what was written, so that :meth:`store` writes it.
        block: serial number of the tensor with block dimensions that it is a block of; 0 for none.
    """

    array: Array | None = None
    state = FRESH
    masked = False
    quiet = False
    writes = 0
    checked = -1
    initial: Any = None
    constant = False
    pool: Pool | None = None
    products: list[tuple[int, int, int, int]] | None = None
    known: Array | None = None
    raw = False
    written: Array | None = None
    special = False
    origin = ""
    block = 0

    def __init__(
        self, id: int, buffer: Buffer, element: DType, rows: int, row: int, name: str, line: int
    ) -> None:
        self.id = id
        self.buffer = buffer
        self.element = element
        self.rows = rows
        self.row = row
        self.name = name
        self.line = line
        self.left: list[tuple[Tensor, Array, int]] = []

    @property
    def carrier(self) -> np.dtype[Any]:
        return CARRIERS[self.element.name]

    @property
    def itemsize(self) -> int:
        return CARRIERS[self.element.name].itemsize

    @property
    def round(self) -> Callable[[Array], Array]:
        return ROUNDERS[self.element.name]

    def fill(self, value: Any) -> None:
        """Give every element a value without an instruction (zeros in PSUM, constants)."""
        self.initial = value
        self.state = FULL

    def hold(self, values: Array) -> None:
        """Contents that are part of the kernel, not an input."""
        self.adopt(values)
        self.constant = True

    def reset(self, pool: Pool) -> None:
        """Back to the state before the first instruction."""
        self.pool = pool
        if self.constant:
            return
        self.array = self.written = None
        self.left, self.origin = [], ""
        self.state = FRESH if self.initial is None else FULL
        self.writes, self.checked = 0, -1
        self.special = self.raw

    def release(self) -> None:
        """Let go of the contents: nobody will read them."""
        if self.array is not None and self.pool is not None:
            self.pool.give(self.array)
        self.array = self.written = None
        self.state = FRESH

    def adopt(self, values: Array) -> None:
        """Use an input's carrier as contents."""
        self.array = values.reshape(-1)
        self.state = FULL
        if self.raw:
            self.array = _bytes_of(to_bits(self.array, self.element))

    # Views as other data types.

    def expose(self) -> None:
        """Hold bits from now on, since a view reads or writes them as another data type."""
        if self.raw:
            return
        self.raw = self.special = True
        if self.array is None:
            return
        unwritten = None
        if self.state != FULL:
            unwritten = self._poisoned(self.array) if self.written is None else ~self.written
        self.array = _bytes_of(to_bits(self.array, self.element)).copy()
        self.written = None
        if unwritten is not None:
            self.written = np.repeat(~unwritten, self.element.nbytes)

    def _place(self, tensor: Tensor) -> Array:
        """A region's bits, as the storage of its data type."""
        size = tensor.element.nbytes
        return np.ndarray(
            tensor.shape,
            STORAGE[tensor.element.name],
            self.array,
            tensor.offset * size,
            tuple([s * size for s in tensor.strides]),
        )

    def flat(self, element: DType) -> Array:
        """All elements one after the other, as they are stored."""
        if self.array is None:
            self.allocate()
        assert self.array is not None
        if not self.raw:
            return self.array
        kind = STORAGE[element.name]
        return self.array[: self.array.size // kind.itemsize * kind.itemsize].view(kind)

    def view(self, tensor: Tensor) -> Array:
        """Values of a region; allocates poisoned memory where there is none yet.

        They are a NumPy view, except in memory that holds bits.
        """
        if self.array is None:
            self.allocate()
        if self.raw:
            return from_bits(self._place(tensor), tensor.element)
        carrier = CARRIERS[self.element.name]
        size = carrier.itemsize
        return np.ndarray(
            tensor.shape,
            carrier,
            self.array,
            tensor.offset * size,
            tuple([s * size for s in tensor.strides]),
        )

    def store(self, tensor: Tensor, values: Array, where: Array | None = None) -> None:
        """Write rounded values to a region of memory that is :attr:`special`."""
        if self.array is None:
            self.allocate()
        if self.raw:
            place = self._place(tensor)
            values = to_bits(values, tensor.element)
        else:
            place = self.view(tensor)
        mask: Any = True if where is None else np.broadcast_to(where, tensor.shape)
        np.copyto(place, np.broadcast_to(values, tensor.shape), where=mask, casting="unsafe")
        marks = self._marks(tensor)
        if marks is not None:
            if where is None:
                marks[...] = True
            else:
                marks[np.broadcast_to(where, tensor.shape)] = True

    # Allocation, and what was written.

    def allocate(self, *, poison: bool = True) -> None:
        array = self._acquire()
        if self.initial is not None:
            if self.raw:
                value = np.full(1, self.initial, dtype=self.carrier)
                array.view(STORAGE[self.element.name]).fill(to_bits(value, self.element)[0])
            else:
                array.fill(self.initial)
        elif poison:
            self._poison()

    def _acquire(self) -> Array:
        count = self.rows * self.row
        kind = self.carrier
        if self.raw:
            count, kind = count * self.element.nbytes, np.dtype(np.uint8)
        if self.pool is None:
            self.array = _empty(count, kind)
        else:
            self.array = self.pool.take(count, kind)
        return self.array

    def _poison(self) -> None:
        assert self.array is not None
        if self.raw or self.itemsize < 4:
            self.array.fill(0)
            self.written = np.zeros(self.array.size, dtype=bool)
            self.special = True
        elif self.carrier == np.float32:
            self.array.view(np.uint32).fill(POISON_BITS)
        else:
            self.array.view(np.int32).fill(INTEGER_POISON)

    def before_write(self, elements: int) -> None:
        """Prepare for a write of so many distinct elements."""
        whole = elements >= self.rows * self.row
        if self.array is None and self.state == FULL and whole:
            self._acquire()
        if self.state == FRESH:
            if whole:
                if self.array is None:
                    self.allocate(poison=False)
                self.state = FULL
            else:
                if self.array is None:
                    self.allocate()
                self.state = PARTIAL
        elif whole and self.written is not None:
            self.written, self.special = None, self.raw
            self.state = FULL
        self.writes += 1

    def _marks(self, tensor: Tensor) -> Array | None:
        """Which elements of a region were written, with the bytes of each as last axis."""
        if self.written is None:
            return None
        if not self.raw:
            return np.ndarray(tensor.shape, bool, self.written, tensor.offset, tensor.strides)
        size = tensor.element.nbytes
        strides = (*[s * size for s in tensor.strides], 1)
        return np.ndarray((*tensor.shape, size), bool, self.written, tensor.offset * size, strides)

    def poisoned(self, values: Array, tensor: Tensor) -> Array | None:
        """Which of a region's values were never written; None if all were."""
        marks = self._marks(tensor)
        if marks is not None:
            whole: Array = np.logical_and.reduce(marks, axis=-1) if self.raw else marks
            return np.logical_not(whole)
        return None if self.raw else self._poisoned(values)

    def gathered(self, positions: Array, values: Array, element: DType) -> Array | None:
        """Which of the elements at these positions were never written; None if all were."""
        if self.written is None:
            return None if self.raw else self._poisoned(values)
        if not self.raw:
            return ~self.written[positions]
        size = element.nbytes
        rows = self.written[: self.written.size // size * size].reshape(-1, size)
        whole: Array = np.logical_and.reduce(rows, axis=-1)
        return np.logical_not(whole[positions])

    def mark(self, positions: Array, element: DType) -> None:
        """Elements at these positions are written now."""
        if self.written is None:
            return
        if not self.raw:
            self.written[positions] = True
            return
        size = element.nbytes
        self.written[: self.written.size // size * size].reshape(-1, size)[positions] = True

    def forget(self, tensor: Tensor, positions: Array) -> None:
        """Elements of a region, where ``positions`` of its shape is true, hold nothing now."""
        if self.initial is not None:
            return
        if self.written is None:
            if self.raw or self.itemsize < 4:
                self.written, self.special = np.ones(self.rows * self.row, dtype=bool), True
                if self.raw:
                    self.written = np.ones(self.written.size * self.element.nbytes, dtype=bool)
            else:
                kind = np.uint32 if self.carrier == np.float32 else np.int32
                poison = POISON_BITS if kind is np.uint32 else INTEGER_POISON
                self.view(tensor).view(kind)[positions] = poison
        marks = self._marks(tensor)
        if marks is not None:
            marks[positions] = False
        self.state = PARTIAL

    def _poisoned(self, values: Array) -> Array | None:
        if self.carrier == np.float32:
            return np.equal(values.view(np.uint32), POISON_BITS)
        if self.itemsize == 4:
            return np.equal(values.view(np.int32), INTEGER_POISON)
        return None

    def remains(self) -> int | None:
        """Line that stored elements holding nothing which nobody has overwritten; None if none."""
        for tensor, nothing, line in self.left:
            found = self.poisoned(self.view(tensor), tensor)
            if found is not None and bool((found & nothing).any()):
                return line
        return None

    def reads_unwritten(self, values: Array, tensor: Tensor) -> bool:
        """Whether a read of partly written memory meets poison. Cheap once all is written."""
        found = self.poisoned(values, tensor)
        if found is not None and bool(found.any()):
            return True
        if self.buffer is not Buffer.HBM and self.checked != self.writes:
            self.checked = self.writes
            if self._complete():
                self.state, self.written, self.special = FULL, None, self.raw
        return False

    def _complete(self) -> bool:
        if self.written is not None:
            return bool(self.written.all())
        everything = None if self.raw else self._poisoned(self.array)  # type: ignore[arg-type]
        return everything is None or not everything.any()


def _empty(count: int, carrier: np.dtype[Any]) -> Array:
    """An uninitialised flat array that begins at a cache line.

    NumPy's own begin 16 bytes behind one. Between such an array and one at a line, some processors
    copy fifteen times slower: those whose string moves stumble over a destination that lies a few
    bytes behind its source in the page.
    """
    raw = np.empty(count * carrier.itemsize + _LINE, dtype=np.uint8)
    start = -raw.ctypes.data % _LINE
    return raw[start : start + count * carrier.itemsize].view(carrier)


_LINE = 64


def _bytes_of(values: Array) -> Array:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)
