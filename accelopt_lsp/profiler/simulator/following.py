"""Values that are followed while only shapes are traced.

Control flow may depend on values: how many tiles there are, which expert comes next. Inputs that
are given with their values keep them while the kernel is traced; an instruction is computed if
all that it reads is known, else what it writes is unknown. Control flow that needs an unknown
value stops the trace with a message (:class:`~.registers.Register`); nothing is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.errors import ValuesNeeded
from accelopt_lsp.profiler.simulator.memory import Memory
from accelopt_lsp.profiler.simulator.numerics.base import PARTS
from accelopt_lsp.profiler.simulator.values import compute

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.plans import Step
    from accelopt_lsp.profiler.simulator.session import Session
    from accelopt_lsp.profiler.simulator.tensors import Tensor

MAX_ELEMENTS = 1 << 20
"""Tensors with more elements are not followed: they carry data, not control."""


def start(tensor: Tensor, values: Array) -> None:
    """Follow an input that was given with its values."""
    memory = tensor.settle()
    memory.adopt(values)
    memory.known = np.ones(memory.rows * memory.row, dtype=bool)


def follow(
    session: Session,
    step: Step,
    tensors: Sequence[Tensor],
    line: int,
    accumulates: bool,
    where: Array | None,
) -> None:
    """Compute one traced instruction if everything it reads is known."""
    sources = [tensors[at] for _, at in step.reads]
    targets = [tensors[at] for _, at in step.writes]
    if step.partial:
        # What it leaves as it is must be known too, unless there was nothing.
        sources += [t for t in targets if t.memory is not None and t.memory.writes]
    if all(_followed(t, accumulates) for t in targets):
        lanes = True if all(_known(t) for t in sources) else _known_lanes(step, sources)
        if lanes is not None and (lanes is True or where is None):
            try:
                compute(session, step, tensors, line, accumulates, where)
            except ValuesNeeded:
                pass
            else:
                for tensor in targets:
                    _mark(tensor, where, lanes)
                return
    for tensor in targets:
        _mark(tensor, None, False)


def _known(tensor: Tensor) -> bool:
    memory = tensor.memory
    if memory is None:
        return False
    if memory.known is None:
        return memory.constant or memory.initial is not None and memory.writes == 0
    if _spread(tensor, memory):
        return bool(memory.known.all())
    return bool(_view(memory, tensor).all())


_FOLLOWED_BY_LANE = frozenset({"nonzero_with_count"})


def _known_lanes(step: Step, sources: Sequence[Tensor]) -> Array | None:
    """Partitions of which everything is known, for an instruction that reads a few of them."""
    op = step.issue.op
    if op not in _FOLLOWED_BY_LANE:
        return None
    lanes: Array | None = None
    for tensor in sources:
        memory = tensor.memory
        if memory is None or memory.known is None or _spread(tensor, memory):
            return None
        known = _view(memory, tensor)
        if PARTS[op](~known, step.attrs).any():
            return None
        whole = np.asarray(known.reshape(known.shape[0], -1).all(axis=1))
        lanes = whole if lanes is None else np.logical_and(lanes, whole)
    return lanes if lanes is not None and lanes.any() else None


def _followed(tensor: Tensor, accumulates: bool) -> bool:
    """Whether a tensor may be given known values: it is small, and what it adds to is known."""
    memory = tensor.memory
    if memory is None or memory.rows * memory.row > MAX_ELEMENTS:
        return False
    return not accumulates or memory.writes == 0 or _known(tensor)


def _mark(tensor: Tensor, where: Array | None, known: bool | Array) -> None:
    """Note what is known of a tensor that was written: all of it, nothing, or some partitions."""
    memory = tensor.memory
    if memory is None:
        return
    if memory.known is None:
        if known is False:
            memory.writes += 1
            return
        whole = memory.constant or memory.initial is not None
        memory.known = np.full(memory.rows * memory.row, whole and memory.writes <= 1)
    if _spread(tensor, memory):
        # It is not known here which elements were written.
        if known is not True or not memory.known.all():
            memory.known[:] = False
        return
    view = _view(memory, tensor)
    if where is None:
        view[...] = known if isinstance(known, bool) else known.reshape(-1, *[1] * (view.ndim - 1))
    else:
        view[np.broadcast_to(where, view.shape)] = known


def _spread(tensor: Tensor, memory: Memory) -> bool:
    """Whether a view may be any of its tensor's elements, or parts of some."""
    return tensor.dynamic is not None or tensor.element.nbytes != memory.element.nbytes


def _view(memory: Memory, tensor: Tensor) -> Array:
    assert memory.known is not None
    return np.ndarray(tensor.shape, bool, memory.known, tensor.offset, tensor.strides)
