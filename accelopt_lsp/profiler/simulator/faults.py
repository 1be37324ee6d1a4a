"""What is wrong with a view's addresses, said when the view is used.

A kernel may make a view and not use it: past the last tile of a loop, say, or where a mask cuts
it short. So a view keeps its fault, and an instruction that takes it as operand is rejected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelopt_lsp.nki.operands import Buffer, outside_text

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.tensors import Tensor


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

    def of(self, view: Tensor) -> IndexFault | None:
        """What it means for a view of other axes: nothing, its indices were along these."""
        return None

    def describe(self) -> str:
        """The first index outside, or an empty string."""
        for dim, size, offset, strides in self.terms:
            low, high = _reach(offset, strides, self.shape)
            if low < 0 or high >= size:
                return f"{outside_text(low, high, dim, size)}; mask the call or shorten the index"
        return ""


def _reach(offset: int, strides: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, int]:
    low = high = offset
    for stride, size in zip(strides, shape, strict=True):
        if stride > 0:
            high += stride * (size - 1)
        else:
            low += stride * (size - 1)
    return low, high


class PatternFault:
    """An access pattern that leaves its allocation.

    Attributes:
        view: the view that has it.
        terms: for masks: the same as an index of the whole allocation.
    """

    __slots__ = ("view",)

    def __init__(self, view: Tensor) -> None:
        self.view = view

    @property
    def shape(self) -> tuple[int, ...]:
        return self.view.shape

    @property
    def terms(self) -> tuple[tuple[int, int, int, tuple[int, ...]], ...]:
        memory = self.view.memory
        assert memory is not None
        return ((0, memory.rows * self.view.row, self.view.offset, self.view.strides),)

    def narrowed(self, axis: int, low: int, high: int) -> PatternFault | None:
        """The same after cutting an axis; None when the pattern is inside."""
        return self.of(self.view.static(self.view.offset).narrow(axis, low, high))

    def of(self, view: Tensor) -> PatternFault | None:
        """What it means for a view derived from the one that has it."""
        return pattern_fault(view)

    def describe(self) -> str:
        """Where the pattern leaves the allocation, or an empty string."""
        return _leaves(self.view)


def pattern_fault(view: Tensor) -> PatternFault | None:
    """Whether the strides and sizes of a view leave its allocation."""
    return PatternFault(view) if _leaves(view) else None


def _leaves(view: Tensor) -> str:
    memory, row = view.memory, view.row
    assert memory is not None
    low, high = _reach(view.offset, view.strides, view.shape)
    total = memory.rows * row
    if low < 0 or high >= total:
        return f"elements {low} to {high} leave an allocation of {total}"
    if view.buffer is Buffer.HBM:
        return ""
    low, high = _reach(view.offset % row, view.strides[1:], view.shape[1:])
    if low < 0 or high >= row:
        return f"elements {low} to {high} of a partition leave its {row}"
    return ""
