"""A traced kernel computed afterwards, with as many inputs as there are.

Tracing runs the kernel's Python once and notes each instruction down with its operands. Values
are computed from these notes: seeds after the first cost no Python of the kernel's, and since it
is known when a tile is used last, its memory goes back to a pool at once. The pool also spares
the pages that the system would have to clear for every new tile.

Kernels whose control flow depends on values cannot be traced without them; they run directly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field

from accelopt_lsp.profiler.simulator import ordering
from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.elision import without_copies
from accelopt_lsp.profiler.simulator.errors import SimulationError
from accelopt_lsp.profiler.simulator.garbage import uncollected
from accelopt_lsp.profiler.simulator.memory import Memory, Pool
from accelopt_lsp.profiler.simulator.values import compute

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.plans import Step
    from accelopt_lsp.profiler.simulator.session import Session
    from accelopt_lsp.profiler.simulator.tensors import Tensor

Operation = tuple["Step", tuple["Tensor", ...], int, bool, "Array | None"]
"""Instruction, operands in the order of its slots, line, whether it accumulates, mask."""


@define(slots=True)
class Recording:
    """The instructions of one run.

    Attributes:
        operations: what there is to compute, in the order of computing.
        issued: the same in the order of the kernel.
        ends: positions to the memories that no later operation uses.
        memories: all that is used in computing.
    """

    operations: Sequence[Operation]
    issued: Sequence[Operation]
    ends: dict[int, list[Memory]] = field(factory=dict)
    memories: list[Memory] = field(factory=list)

    @classmethod
    def of(cls, operations: Sequence[Operation], kept: Iterable[Tensor]) -> Recording:
        """Prepare operations for being computed.

        Args:
            kept: tensors whose memory is needed afterwards: inputs and outputs.
        """
        needed = {t.memory for t in kept}
        issued = operations
        with uncollected():
            operations, alive = ordering.chosen(without_copies(issued, needed), needed)
            made = cls(operations, issued, memories=list(alive.first))
            for memory, position in alive.last.items():
                made.ends.setdefault(position, []).append(memory)
        return made


def replay(session: Session, recording: Recording, inputs: Iterable[tuple[Tensor, Array]]) -> None:
    """Compute everything with these inputs; outputs are in their tensors afterwards.

    Args:
        inputs: tensors of the trace, with the carriers that they hold this time.

    Raises:
        KernelRejected: an operand was never written, or an index leaves its tensor.
    """
    inputs = list(inputs)
    try:
        _compute_all(session, recording, inputs)
    except SimulationError:
        if recording.operations is recording.issued:
            raise
        # As issued, once more: of several faults the one that the kernel meets first is to be told.
        memories = dict.fromkeys(t.settle() for _, tensors, *_ in recording.issued for t in tensors)
        as_issued = Recording(recording.issued, recording.issued, memories=list(memories))
        _compute_all(session, as_issued, inputs)


def _compute_all(
    session: Session, recording: Recording, inputs: Iterable[tuple[Tensor, Array]]
) -> None:
    pool = Pool()
    for memory in recording.memories:
        memory.reset(pool)
    session.begin_values()
    for tensor, values in inputs:
        tensor.settle().adopt(values)
    ends = recording.ends
    line = 0
    try:
        with np.errstate(all="ignore"):
            for position, (step, tensors, line, accumulates, where) in enumerate(
                recording.operations
            ):
                compute(session, step, tensors, line, accumulates, where)
                done: Any = ends.get(position)
                if done is not None:
                    for memory in done:
                        memory.release()
    except SimulationError as error:
        if error.line is None:
            error.line = line
        raise
