"""Calls that are held back until it is known where their result goes."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any

from attrs import define

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.indexing import Affine
    from accelopt_lsp.profiler.simulator.plans import Plan
    from accelopt_lsp.profiler.simulator.source import Site
    from accelopt_lsp.profiler.simulator.tensors import Tensor


@define(slots=True, eq=False)
class Pending:
    """A call whose result has no place yet.

    Attributes:
        plan, bound: the call.
        result: tensor that the kernel holds.
        frame, site, line: where it stands.
        cut: (axis, begin, end) of the result that a mask leaves.
        where: terms of the mask that span several axes.
        reduces: it is a loop reduction.
        empty: its mask holds nowhere, so that it issues nothing.
    """

    plan: Plan
    bound: dict[str, Any]
    result: Tensor
    frame: FrameType
    site: Site
    line: int
    cut: tuple[tuple[int, int, int], ...] = ()
    where: tuple[Affine, ...] = ()
    reduces: LoopReduction | None = None
    empty: bool = False


@define(slots=True, eq=False)
class LoopReduction:
    """``nl.loop_reduce``: a copy in the first iteration, an operation in all later ones.

    Attributes:
        first, last: all named loops are in their first or last iteration.
        op, dtype: arguments of the call.
        value: what is reduced.
        tiles, number: running values of the call site here, and which of them this is.
    """

    first: bool
    op: Any
    dtype: Any
    value: Tensor
    tiles: dict[int, Tensor]
    number: int
    last: bool
