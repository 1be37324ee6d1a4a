"""``nl.loop_reduce``: a value that accumulates over the iterations of named loops.

A running value belongs to the call site and to the iteration of the enclosing loops that the
call does not name. ``nl`` loops know themselves. Loops over Python's ``range`` or over lists do
not: theirs are told apart by how often the call was reached with the same named indices. A
value starts anew when all named loops are at their first iteration.
"""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator.abridging_values import LoopIndex, plain
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.indexing import decide, running_loops
from accelopt_lsp.profiler.simulator.library import entry_of
from accelopt_lsp.profiler.simulator.masking import masked_call
from accelopt_lsp.profiler.simulator.masks import holds
from accelopt_lsp.profiler.simulator.pending import LoopReduction, Pending
from accelopt_lsp.profiler.simulator.tensors import Tensor

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.session import Session


@define(slots=True)
class Running:
    """Running values of one call site in one iteration of the loops around it.

    Attributes:
        begin: named indices without a loop of their own, when the call was first reached.
        reached: named indices to how often the call was reached with them.
        tiles: running values by that count.
    """

    begin: tuple[int, ...]
    reached: dict[tuple[int, ...], int] = field(factory=dict)
    tiles: dict[int, Tensor] = field(factory=dict)


def loop_reduce(
    session: Session,
    value: Tensor,
    op: Any,
    indices: Any,
    dtype: Any,
    mask: Any,
    frame: FrameType,
) -> Tensor:
    """Hold the reduction back until it is known where it goes.

    Raises:
        KernelRejected: ``indices`` are no loop variables.
    """
    if session.pending is not None:
        session.flush()
    loops = tuple(indices) if isinstance(indices, list | tuple) else (indices,)
    if not loops or not all(isinstance(i, int | np.integer) for i in loops):
        raise KernelRejected("nl.loop_reduce takes the variables of loops as loop_indices")
    entry = entry_of("nisa.tensor_copy", session.dialect)
    bound = entry.bind((value,), {"dtype": dtype})
    site, line = session.locate(frame)
    if mask is None or mask is True:
        plan = session.plan(entry, bound)
        result = plan.lowered.result
        assert result is not None
        tensor = Tensor(None, result.shape, plan.strides, 0, result.dtype, Buffer.SBUF)
        session.pending = Pending(plan, bound, tensor, frame, site, line)
    else:
        tensor = masked_call(session, entry, {**bound, "mask": mask}, frame)
    pending = session.pending
    assert pending is not None
    if session.abridging is not None:
        running, first = _abridged(session, site.id, loops)
        pending.reduces = LoopReduction(
            first, op, dtype, pending.bound["src"], running.tiles, 0, False
        )
        return tensor
    running, first = _running(session, site.id, loops)
    named = tuple(int(i) for i in loops)
    number = running.reached.get(named, 0)
    running.reached[named] = number + 1
    last = all(isinstance(i, LoopIndex) and i.last for i in loops)
    pending.reduces = LoopReduction(
        first, op, dtype, pending.bound["src"], running.tiles, number, last
    )
    return tensor


def _running(session: Session, site: int, loops: tuple[Any, ...]) -> tuple[Running, bool]:
    """Running values of a call site here, and whether its named loops just began."""
    named = set(map(id, loops))
    around = tuple([int(i) for i in running_loops() if id(i) not in named])
    plain = tuple([int(i) for i in loops if not isinstance(i, LoopIndex)])
    found = session.running.get((site, around))
    if found is None:
        found = session.running[(site, around)] = Running(plain)
    began = all([i.first for i in loops if isinstance(i, LoopIndex)])  # noqa: C419 - faster
    return found, began and plain == found.begin


def _abridged(session: Session, site: int, loops: tuple[Any, ...]) -> tuple[Running, bool]:
    """The same where iterations are left out, so that nothing can be counted.

    Raises:
        FullTraceNeeded: the call may have been reached before with the same indices.
    """
    assert session.abridging is not None
    session.abridging.reduced(site)
    if not all(isinstance(index, LoopIndex) for index in loops):
        raise session.abridging.full_trace_needed()
    named = set(map(id, loops))
    around = tuple([plain(i) for i in running_loops() if id(i) not in named])
    found = session.running.get((site, around))
    if found is None:
        found = session.running[(site, around)] = Running(())
    return found, all([i.first for i in loops])  # noqa: C419 - all of them decide


def place(session: Session, pending: Pending) -> None:
    """A loop reduction into a variable: one tile for all iterations of the named loops."""
    reduction, result = pending.reduces, pending.result
    assert reduction is not None
    decide()
    before = reduction.tiles.get(reduction.number)
    if reduction.first or before is None:
        reduction.first = True
        session._place(result, pending.site, pending.line)
        reduction.tiles[reduction.number] = result
    else:
        result.memory, result.operand = before.memory, None
    reduce_into(session, pending, result)


def reduce_into(session: Session, pending: Pending, target: Tensor) -> None:
    """One execution of a loop reduction, with the running value in ``target``."""
    reduction = pending.reduces
    assert reduction is not None
    if reduction.last:
        reduction.tiles.pop(reduction.number, None)
    if pending.cut or pending.where or pending.empty:
        target.settle().masked = True
    if pending.empty:
        return
    for axis, low, high in pending.cut:
        if axis < target.ndim and target.shape[axis] > 1:
            target = target.narrow(axis, low, high)
    where = holds(pending.where, target.shape) if pending.where and session.valued else None
    kind = target.operand or target.typed()
    plan, bound = pending.plan, pending.bound
    if not reduction.first:
        entry = entry_of("nisa.tensor_tensor", session.dialect)
        bound = entry.bind((target, reduction.value, reduction.op), {"dtype": reduction.dtype})
        plan = session.plan(entry, bound)
    session.run(plan.into(kind), bound, target, pending.site, pending.line, where=where)
