"""Masks of the legacy dialect: affine comparisons combined with ``&``."""

from __future__ import annotations

import dis
import sys
from functools import cache
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.errors import KernelRejected

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.indexing import Affine

_JUMPS = frozenset({"COPY", "JUMP_IF_FALSE_OR_POP"})


@cache
def _joins(code: CodeType, at: int) -> bool:
    """Whether the bytecode at an offset is that of ``a and b``, whose value is kept."""
    before = ""
    for instruction in dis.get_instructions(code):
        if instruction.offset == at:
            return instruction.opname in _JUMPS or before in _JUMPS
        if instruction.opname != "TO_BOOL":
            before = instruction.opname
    return False


_UNKNOWN = object()

Bounds = dict[int, tuple[int, int, int]]
"""Axis of the mask's grid to (size of the axis, first valid position, end of the valid ones)."""


class Mask:
    """All terms must be at least 0 where the instruction is to act."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("_joined", "_split", "_throughout", "terms")

    def __init__(self, terms: tuple[Affine, ...]) -> None:
        self.terms = terms
        self._split: Any = _UNKNOWN
        self._throughout: bool | None = None
        self._joined: tuple[Mask, Mask] | None = None

    def __and__(self, other: Any) -> Any:
        if isinstance(other, Mask):
            # Kernels write masks out at every use; one made before is split already.
            known = self._joined
            if known is None or known[0] is not other:
                known = self._joined = (other, Mask(self.terms + other.terms))
            return known[1]
        if isinstance(other, bool | np.bool_):
            return self if other else NEVER
        return NotImplemented

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        raise KernelRejected("masks can only be combined with &", "R033")

    def __invert__(self) -> Any:
        raise KernelRejected("a mask cannot be negated; write the opposite comparison", "R033")

    def __bool__(self) -> bool:
        """Masks joined by ``and``: Python drops the first, and so does NKI (known issues).

        Raises:
            KernelRejected: a statement or a loop depends on a mask.
        """
        frame = sys._getframe(1)
        if _joins(frame.f_code, frame.f_lasti):
            session = sessions._current
            if session is not None:
                session.notes.setdefault(
                    f"line {frame.f_lineno}: `and` leaves of two masks the second alone; combine "
                    "masks with &"
                )
            return True
        raise KernelRejected(
            "a comparison of indices is a mask and cannot decide control flow; give it as mask= of "
            "the instruction, and combine masks with & and |",
            "R010",
        )

    @property
    def rank(self) -> int:
        return max((t.ndim for t in self.terms), default=0)

    def split(self) -> tuple[Bounds, tuple[Affine, ...]] | None:
        """Bounds per axis, and the terms that span several axes; None where nothing is valid.

        A term with one varying axis only cuts that axis short, so the instruction runs on a
        smaller tile. Axes are counted in a grid of :attr:`rank`. Memoised.
        """
        if self._split is _UNKNOWN:
            self._split = self._cut()
        found: tuple[Bounds, tuple[Affine, ...]] | None = self._split
        return found

    def holds_throughout(self) -> bool:
        """Whether every position of its grid is valid. Memoised."""
        known = self._throughout
        if known is None:
            split = self.split()
            known = self._throughout = (
                split is not None
                and not split[1]
                and all(low == 0 and high == size for size, low, high in split[0].values())
            )
        return known

    def _cut(self) -> tuple[Bounds, tuple[Affine, ...]] | None:
        rank = self.rank
        bounds: Bounds = {}
        rest: list[Affine] = []
        for term in self.terms:
            lead = rank - term.ndim
            varying = [a for a, s in enumerate(term.strides) if s != 0 and term.shape[a] > 1]
            if not varying:
                if term.offset < 0:
                    return None
                continue
            if len(varying) > 1:
                rest.append(term)
                continue
            axis = varying[0]
            size, stride = term.shape[axis], term.strides[axis]
            low, high = 0, size
            if stride > 0:
                low = max(0, -(term.offset // stride))
            else:
                high = min(size, term.offset // -stride + 1)
            known = bounds.get(axis + lead)
            if known is not None:
                low, high = max(low, known[1]), min(high, known[2])
            if low >= high:
                return None
            bounds[axis + lead] = (size, low, high)
        return bounds, tuple(rest)


class _Never(Mask):
    """A mask that holds nowhere."""

    __slots__ = ()

    def split(self) -> tuple[Bounds, tuple[Affine, ...]] | None:
        return None


NEVER = _Never(())


def holds(terms: tuple[Affine, ...], shape: tuple[int, ...]) -> Array:
    """Where all terms are at least 0, broadcast to ``shape``."""
    valid: Array = np.ones((1,) * len(shape), dtype=bool)
    for term in terms:
        valid = valid & (term.values() >= 0)
    return np.broadcast_to(valid, shape)
