"""Operand descriptors: what lowering, limits and costs need to know about a tensor."""

from __future__ import annotations

from enum import StrEnum
from math import prod

from attrs import field, frozen

from accelopt_lsp.nki.dtypes import DType


class Buffer(StrEnum):
    """The memory a tensor lives in."""

    HBM = "hbm"
    SBUF = "sbuf"
    PSUM = "psum"

    @property
    def on_chip(self) -> bool:
        return self is not Buffer.HBM


class Engine(StrEnum):
    """What executes an instruction. ``SYNC`` only triggers DMAs and has no data path."""

    TENSOR = "tensor"
    VECTOR = "vector"
    SCALAR = "scalar"
    GPSIMD = "gpsimd"
    SYNC = "sync"
    DMA = "dma"


@frozen(slots=True)
class Number:
    """A number with a data type of its own, such as ``np.float16(2)`` in a kernel."""

    value: float
    dtype: DType


def row_major_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a contiguous tensor of that shape."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


@frozen(slots=True)
class Pattern:
    """An affine index over a grid: ``offset + sum(strides[a] * position[a])``.

    What ``nl.arange`` and ``nl.mgrid`` are to instructions that make patterns.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def negated(self) -> Pattern:
        return Pattern(self.shape, tuple(-s for s in self.strides), -self.offset)


@frozen(slots=True)
class NestedPattern:
    """Integers over a tile: ``offset + multiplier * partition + sum(step_i * position_i)``.

    What an index such as ``i // 4`` is to ``iota``: its steps need not follow the tile's axes.

    Attributes:
        shape: of the tile.
        steps: ``(step, num)`` from the outermost to the innermost axis of the walk.
    """

    shape: tuple[int, ...]
    multiplier: int
    steps: tuple[tuple[int, int], ...]
    offset: int


@frozen(slots=True)
class Condition:
    """A comparison of affine indices: where all terms are at least 0."""

    terms: tuple[Pattern, ...]


class DynamicKind(StrEnum):
    """Where the run-time part of an address comes from."""

    REGISTER = "register"
    SCALAR = "scalar"
    VECTOR = "vector"
    GATHER = "gather"
    MASKED = "masked"
    LISTED = "listed"

    @property
    def run_time(self) -> bool:
        """The device computes addresses from values; otherwise they are known beforehand."""
        return self not in (DynamicKind.MASKED, DynamicKind.LISTED)


@frozen(slots=True)
class Dynamic:
    """The run-time part of an operand's address.

    Attributes:
        kind: one offset from a register or from SBUF, one for each position of an axis, a
            gather along the free axis, a mask over several axes, or a list of static positions
            that no strides describe.
        index: the tile that holds the offsets; None for registers, masks and lists.
    """

    kind: DynamicKind
    index: OperandType | None = None


@frozen(slots=True, cache_hash=True)
class OperandType:
    """Shape, layout, data type and memory of one operand, without its address.

    Attributes:
        shape: sizes; on chip, dimension 0 is the partition dimension.
        dtype: element type.
        buffer: memory.
        strides: elements between neighbours of each dimension; of an on-chip tensor the
            first one is 0 (partitions have no stride). None means contiguous.
        start_partition: first partition used (on chip).
        dynamic: what of the address is known at run time only.
    """

    shape: tuple[int, ...]
    dtype: DType
    buffer: Buffer
    strides: tuple[int, ...] | None = None
    start_partition: int = 0
    dynamic: Dynamic | None = None
    _layout: tuple[int, ...] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_layout", self.strides or row_major_strides(self.shape))

    @property
    def layout(self) -> tuple[int, ...]:
        """Strides in elements, also where ``strides`` was left out."""
        return self._layout

    @property
    def partitions(self) -> int:
        """Size of the partition dimension (1 for a scalar)."""
        return self.shape[0] if self.shape else 1

    @property
    def free(self) -> int:
        """Elements per partition."""
        return prod(self.shape[1:])

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.elements * self.dtype.nbytes

    @property
    def free_bytes(self) -> int:
        """Bytes per partition."""
        return self.free * self.dtype.nbytes

    def contiguous_run(self) -> int:
        """Elements that follow each other in memory, starting at the innermost dimension.

        On chip a run never crosses a partition, since each partition is a memory of its own.
        """
        first = 1 if self.buffer.on_chip else 0
        run = 1
        for size, stride in zip(
            reversed(self.shape[first:]), reversed(self.layout[first:]), strict=True
        ):
            if size == 1:
                continue
            if stride != run:
                break
            run *= size
        return run

    def describe(self) -> str:
        """For people: ``bf16[128,512] in SBUF``."""
        sizes = ",".join(str(s) for s in self.shape)
        return f"{self.dtype.short}[{sizes}] in {self.buffer.upper()}"


def outside_text(low: int, high: int, dim: int, size: int) -> str:
    """Says that indices from ``low`` to ``high`` leave a dimension."""
    if low == high:
        return f"index {low} leaves dimension {dim} of size {size}"
    return f"indices {low} to {high} leave dimension {dim} of size {size}"
