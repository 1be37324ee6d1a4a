"""Memory of a simulated core: what one allocation holds, and whether it was ever written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from accelopt_lsp.nki.dtypes import DType, numpy_dtype
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator.elements import (
    CARRIERS,
    INTEGER_POISON,
    POISON_BITS,
    ROUNDERS,
    Array,
    from_carrier,
    to_carrier,
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
        return np.empty(count, dtype=carrier)

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
        self.array = None
        self.state = FRESH if self.initial is None else FULL
        self.writes, self.checked = 0, -1

    def release(self) -> None:
        """Let go of the contents: nobody will read them."""
        if self.array is not None and self.pool is not None:
            self.pool.give(self.array)
        self.array = None
        self.state = FRESH

    def adopt(self, values: Array) -> None:
        """Use an input's carrier as contents."""
        self.array = values.reshape(-1)
        self.state = FULL

    def view(self, tensor: Tensor) -> Array:
        """NumPy view of a region; allocates poisoned memory where there is none yet.

        A view as another data type is a copy, which :meth:`store` writes back.
        """
        if self.array is None:
            self.allocate()
        if tensor.element is not self.element:
            return self._reinterpreted(tensor)
        carrier = CARRIERS[self.element.name]
        size = carrier.itemsize
        return np.ndarray(
            tensor.shape,
            carrier,
            self.array,
            tensor.offset * size,
            tuple([s * size for s in tensor.strides]),
        )

    def _bits(self) -> Array:
        """All elements as the device holds them."""
        assert self.array is not None
        return np.ascontiguousarray(from_carrier(self.array, self.element)).view(np.uint8)

    def _reinterpreted(self, tensor: Tensor) -> Array:
        size = tensor.element.nbytes
        values = np.ndarray(
            tensor.shape,
            numpy_dtype(tensor.element),
            self._bits(),
            tensor.offset * size,
            tuple([s * size for s in tensor.strides]),
        )
        return to_carrier(values, tensor.element)

    def store(self, tensor: Tensor, values: Array, where: Any = True) -> None:
        """Write a view as another data type: bits go where they belong."""
        if self.array is None:
            self.allocate()
        bits = self._bits().copy()
        size = tensor.element.nbytes
        place = np.ndarray(
            tensor.shape,
            numpy_dtype(tensor.element),
            bits,
            tensor.offset * size,
            tuple([s * size for s in tensor.strides]),
        )
        stored = from_carrier(values, tensor.element)
        np.copyto(place, np.broadcast_to(stored, tensor.shape), where=where, casting="unsafe")
        assert self.array is not None
        self.array[...] = to_carrier(bits.view(numpy_dtype(self.element)), self.element)

    def allocate(self, *, poison: bool = True) -> None:
        array = self._acquire()
        if self.initial is not None:
            array.fill(self.initial)
        elif poison:
            self._poison()

    def _acquire(self) -> Array:
        count = self.rows * self.row
        if self.pool is None:
            self.array = np.empty(count, dtype=self.carrier)
        else:
            self.array = self.pool.take(count, self.carrier)
        return self.array

    def _poison(self) -> None:
        assert self.array is not None
        if self.carrier == np.float32:
            self.array.view(np.uint32).fill(POISON_BITS)
        elif self.itemsize == 4:
            self.array.view(np.int32).fill(INTEGER_POISON)
        else:
            self.array.fill(0)

    def before_write(self, elements: int) -> None:
        """Prepare for a write of so many distinct elements."""
        if self.array is None and self.state == FULL and elements >= self.rows * self.row:
            self._acquire()
        if self.state == FRESH:
            if elements >= self.rows * self.row:
                if self.array is None:
                    self.allocate(poison=False)
                self.state = FULL
            else:
                if self.array is None:
                    self.allocate()
                self.state = PARTIAL
        self.writes += 1

    def poisoned(self, values: Array) -> Array | None:
        """Which of these values were never written; None if it cannot be told."""
        if self.carrier == np.float32:
            return np.equal(values.view(np.uint32), POISON_BITS)
        if self.itemsize == 4:
            return np.equal(values.view(np.int32), INTEGER_POISON)
        return None

    def reads_unwritten(self, values: Array) -> bool:
        """Whether a read of partly written memory meets poison. Cheap once all is written."""
        found = self.poisoned(values)
        if found is not None and bool(found.any()):
            return True
        if self.buffer is not Buffer.HBM and self.checked != self.writes:
            self.checked = self.writes
            everything = self.poisoned(self.array)  # type: ignore[arg-type]
            if everything is None or not everything.any():
                self.state = FULL
        return False
