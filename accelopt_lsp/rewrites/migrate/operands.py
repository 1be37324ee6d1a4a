"""Tensors of the new text: how they are written, and what they are."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from attrs import evolve, field, frozen

from accelopt_lsp.analysis.values import View
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.rewrites.migrate.linear import plus


@frozen(slots=True)
class Cut:
    """What a mask leaves of one axis: positions ``low`` up to ``high``, as text."""

    size: int
    low: str
    high: str


@frozen(slots=True)
class Cuts:
    """What a mask leaves of a call's tiles.

    Attributes:
        rank: of the mask's grid.
        axes: by axis of the grid.
    """

    rank: int = 0
    axes: Mapping[int, Cut] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.axes)

    def partitions_only(self) -> Cuts:
        return evolve(self, axes={a: c for a, c in self.axes.items() if a == 0})

    def of(self, shape: tuple[int, ...]) -> dict[int, Cut]:
        """The cuts by axis of a tensor, aligned at the last axis."""
        found = {}
        for axis, cut in self.axes.items():
            at = 0 if axis == 0 else len(shape) - (self.rank - axis)
            if 0 <= at < len(shape) and shape[at] == cut.size:
                found[at] = cut
        return found


NO_CUTS = Cuts()


@frozen(slots=True)
class Span:
    """A slice of one dimension as text: from, number of positions, step."""

    start: str
    count: str
    step: int = 1
    whole: bool = False

    def text(self) -> str:
        start = self.start or "0"
        if self.step == 1:
            return joined(start, plus(start, self.count))
        stop = plus(start, _scaled(self.count, self.step))
        # The last position is start + (count - 1) * step.
        stop = plus(stop, str(1 - self.step))
        return f"{joined(start, stop)}:{self.step}"

    def cut(self, cut: Cut) -> Span:
        start = plus(self.start, _scaled(cut.low, self.step))
        count = cut.high if cut.low == "0" else _difference(cut.high, cut.low)
        return Span(start, count, self.step)


def _scaled(text: str, factor: int) -> str:
    from accelopt_lsp.rewrites.migrate.linear import times

    return times(text, str(factor))


def _difference(left: str, right: str) -> str:
    from accelopt_lsp.rewrites.migrate.linear import minus

    return minus(left, right)


def joined(start: str, stop: str) -> str:
    """``start:stop`` with blanks where an end is more than a name or number."""
    simple = all(part.replace("_", "a").replace(".", "a").isalnum() for part in (start, stop))
    return f"{start}:{stop}" if simple else f"{start} : {stop}"


@frozen(slots=True)
class Operand:
    """A tensor of the new text.

    Attributes:
        text: how it is written.
        shape, dtype, buffer: what it is; with a mask, the shape before it cuts.
        name: the variable, if the text is nothing else.
        cut: whether a mask left only a part of it.
    """

    text: str
    shape: tuple[int, ...]
    dtype: DType
    buffer: Buffer
    name: str | None = None
    cut: bool = False

    @classmethod
    def of(cls, text: str, view: View, *, name: str | None = None, cut: bool = False) -> Operand:
        return cls(text, view.shape, view.dtype, view.buffer, name, cut)

    @property
    def free(self) -> int:
        return prod(self.shape[1:])

    @property
    def partitions(self) -> int:
        return self.shape[0] if self.shape else 1
