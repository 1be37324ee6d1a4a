"""In which order the instructions of a recording are computed.

A kernel whose loops are written one after the other (all scores, then all of their maxima, then
all exponentials) keeps everything of the first loop until the second one reads it, if it is run as
it is written. Hardware cannot do so either: its compiler brings the loops together. Computed by
demand, each result is followed by what uses it as soon as that has all of its operands, so that
memory is free again early and values are still in the processor's cache when they are read.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.memory import Memory
    from accelopt_lsp.profiler.simulator.replay import Operation

SEQUENCED = frozenset(
    {"core_barrier", "register_load", "register_move", "register_store", "sendrecv"}
)
"""Instructions that read or write what is no operand: registers, other cores."""
MUCH = 64 << 20
"""Bytes of tiles alive at once above which another order is looked for."""


def chosen(
    operations: Sequence[Operation], kept: Container[Memory | None]
) -> tuple[Sequence[Operation], Lifetimes]:
    """The operations as they were issued, or by demand if that needs much less memory.

    Args:
        kept: memory that stays, however it is computed.
    """
    alive = Lifetimes.of(operations, kept)
    issued = alive.peak_bytes()
    if issued <= MUCH:
        return operations, alive
    demanded = [operations[at] for at in by_demand(operations)]
    shorter = Lifetimes.of(demanded, kept)
    if shorter.peak_bytes() < 0.8 * issued:
        return demanded, shorter
    return operations, alive


@frozen(slots=True)
class Lifetimes:
    """When memories are in use.

    Attributes:
        first: positions of each memory's first use, in that order.
        last: positions of the last use of those that are not needed afterwards.
    """

    first: dict[Memory, int]
    last: dict[Memory, int]

    @classmethod
    def of(cls, operations: Sequence[Operation], kept: Container[Memory | None]) -> Lifetimes:
        first: dict[Memory, int] = {}
        last: dict[Memory, int] = {}
        for position, (_, tensors, *_) in enumerate(operations):
            for tensor in tensors:
                memory = tensor.memory
                assert memory is not None
                if memory not in last:
                    first[memory] = position
                last[memory] = position
        ending = {m: at for m, at in last.items() if not m.constant and m not in kept}
        return cls(first, ending)

    def peak_bytes(self) -> int:
        """Most bytes that are alive at once of what is not needed afterwards."""
        changes: dict[int, int] = {}
        for memory, end in self.last.items():
            size = memory.rows * memory.row * memory.itemsize
            start = self.first[memory]
            changes[start] = changes.get(start, 0) + size
            changes[end + 1] = changes.get(end + 1, 0) - size
        alive = peak = 0
        for position in sorted(changes):
            alive += changes[position]
            peak = max(peak, alive)
        return peak


def by_demand(operations: Sequence[Operation]) -> list[int]:
    """Positions of operations, each after those that it depends on, and not earlier than needed.

    Those that nothing depends on, stores mostly, stay in their order; each is preceded by what it
    needs. Whatever touches the same memory keeps its order, unless both only read; so does
    whatever uses the same accumulators, random numbers or registers.
    """
    needs = _dependences(operations)
    wanted = bytearray(len(operations))
    for before in needs:
        for at in before:
            wanted[at] = 1
    done = bytearray(len(operations))
    order: list[int] = []
    for sink, needed in enumerate(wanted):
        if needed:
            continue
        stack = [sink]
        while stack:
            at = stack[-1]
            if done[at]:
                stack.pop()
                continue
            open_ = [before for before in needs[at] if not done[before]]
            if open_:
                # The earliest goes first.
                open_.sort(reverse=True)
                stack.extend(open_)
                continue
            done[at] = 1
            order.append(at)
            stack.pop()
    return order


def _dependences(operations: Sequence[Operation]) -> list[set[int]]:
    """For each operation, those that must come before it."""
    writer: dict[object, int] = {}
    readers: dict[object, list[int]] = {}
    needs: list[set[int]] = []
    for position, (step, tensors, *_) in enumerate(operations):
        before: set[int] = set()
        written: set[object] = {tensors[at].memory for _, at in step.writes}
        if step.accumulators is not None:
            written.add(step.accumulators[0])
        read: set[object] = {t.memory for t in tensors}
        if step.issue.op in SEQUENCED:
            written.add(SEQUENCED)
        elif step.dynamic:
            read.add(SEQUENCED)
        read -= written
        place: object
        for place in read:
            last = writer.get(place)
            if last is not None:
                before.add(last)
            readers.setdefault(place, []).append(position)
        for place in written:
            last = writer.get(place)
            if last is not None:
                before.add(last)
            before.update(readers.pop(place, ()))
            writer[place] = position
        before.discard(position)
        needs.append(before)
    return needs
