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

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.memory import Memory
    from accelopt_lsp.profiler.simulator.replay import Operation

MUCH = 64 << 20
"""Bytes of tiles alive at once above which another order is looked for."""


def chosen(operations: Sequence[Operation], kept: Container[Memory | None]) -> Sequence[Operation]:
    """The operations as they were issued, or by demand if that needs much less memory.

    Args:
        kept: memory that stays, however it is computed.
    """
    issued = peak_bytes(operations, kept)
    if issued <= MUCH:
        return operations
    demanded = [operations[at] for at in by_demand(operations)]
    return demanded if peak_bytes(demanded, kept) < 0.8 * issued else operations


def peak_bytes(operations: Sequence[Operation], kept: Container[Memory | None]) -> int:
    """Most bytes of tiles that are alive at once, each from its first to its last use."""
    first: dict[Memory, int] = {}
    last: dict[Memory, int] = {}
    for position, (_, tensors, *_) in enumerate(operations):
        for tensor in tensors:
            memory = tensor.memory
            if memory is not None:
                first.setdefault(memory, position)
                last[memory] = position
    changes: dict[int, int] = {}
    for memory, position in first.items():
        if memory.constant or memory in kept:
            continue
        size = memory.rows * memory.row * memory.itemsize
        changes[position] = changes.get(position, 0) + size
        end = last[memory] + 1
        changes[end] = changes.get(end, 0) - size
    alive = peak = 0
    for position in sorted(changes):
        alive += changes[position]
        peak = max(peak, alive)
    return peak


def by_demand(operations: Sequence[Operation]) -> list[int]:
    """Positions of operations, each after those that it depends on, and not earlier than needed.

    Those that nothing depends on, stores mostly, stay in their order; each is preceded by what it
    needs. Whatever touches the same memory keeps its order, unless both only read; so does
    whatever uses the same accumulators or random numbers.
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
        read = {t.memory for t in tensors if t.memory not in written}
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
