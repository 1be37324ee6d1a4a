"""Which instruction has to wait for which: reads, writes and re-used room.

Regions are boxes (partitions x bytes). A kernel touches a storage through few distinct boxes,
so overlaps are found once per pair of boxes and then looked up.
"""

from __future__ import annotations

from attrs import define

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator.timeline.slots import Slots
from accelopt_lsp.profiler.simulator.timeline.stream import COMPUTE_QUEUES, Stream
from accelopt_lsp.profiler.simulator.trace import Region


@define(slots=True)
class Edges:
    """Dependencies of a stream.

    Attributes:
        waits: number of instructions that each one waits for.
        uses: for each instruction, those that use its result (they wait for its latency).
        orders: for each instruction, those that only have to come after it.
    """

    waits: list[int]
    uses: list[list[int] | None]
    orders: list[list[int] | None]


class _StorageState:
    """Last writer and readers since, for every box of one storage."""

    __slots__ = ("boxes", "inherited", "inside", "known", "overlaps", "readers", "writer")

    def __init__(self) -> None:
        self.known: dict[Region, int] = {}
        self.boxes: list[Region] = []
        self.overlaps: list[list[int]] = []
        self.inside: list[list[int]] = []
        self.writer: list[int] = []
        self.readers: list[list[int]] = []
        self.inherited: tuple[int, ...] = ()

    def add(self, box: Region) -> int:
        """Register a box and relate it to the known ones."""
        index = len(self.boxes)
        _, p0, p1, b0, b1 = box
        overlaps, inside = [index], [index]
        for other, (_, q0, q1, c0, c1) in enumerate(self.boxes):
            if p0 < q1 and q0 < p1 and b0 < c1 and c0 < b1:
                overlaps.append(other)
                self.overlaps[other].append(index)
                if p0 <= q0 and q1 <= p1 and b0 <= c0 and c1 <= b1:
                    inside.append(other)
                if q0 <= p0 and p1 <= q1 and c0 <= b0 and b1 <= c1:
                    self.inside[other].append(index)
        self.known[box] = index
        self.boxes.append(box)
        self.overlaps.append(overlaps)
        self.inside.append(inside)
        self.writer.append(-1)
        self.readers.append([])
        return index


def untracked(stream: Stream) -> set[int]:
    """HBM storages that are only read or only written: nothing can wait for them."""
    read: set[int] = set()
    written: set[int] = set()
    for op, regions in _distinct_accesses(stream):
        read.update(regions[p][0] for p in op[0] if p < len(regions))
        written.update(regions[p][0] for p in op[1] if p < len(regions))
    both = read & written
    return {s.id for s in stream.storages if s.buffer is Buffer.HBM and s.id not in both}


def _distinct_accesses(
    stream: Stream,
) -> list[tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[Region, ...]]]:
    dma = [bool(op.engines) for op in stream.ops]
    return [
        ((stream.ops[code].reads, stream.ops[code].writes), regions)
        for code, regions in zip(stream.codes, stream.regions, strict=True)
        if dma[code]
    ]


def dependencies(stream: Stream, slots: Slots, window: int) -> Edges:
    """All dependencies of a stream.

    ``window`` says how far instructions of one engine may be reordered: within it, being on
    the same engine is no order.
    """
    count = len(stream)
    waits = [0] * count
    uses: list[list[int] | None] = [None] * count
    orders: list[list[int] | None] = [None] * count
    skip = untracked(stream)
    states: dict[int, _StorageState] = {}
    ops = stream.ops
    table = [(op.reads, op.writes, int(op.queue), op.accumulates) for op in ops]
    queues = [int(ops[code].queue) for code in stream.codes]
    after = slots.after
    psum = {s.id for s in stream.storages if s.buffer is Buffer.PSUM}
    ordinals = compute_ordinals(queues)
    for index, (code, regions) in enumerate(zip(stream.codes, stream.regions, strict=True)):
        reads, writes, queue, accumulates = table[code]
        in_order = window == 0 or queue >= COMPUTE_QUEUES
        horizon = ordinals[index] - window
        needs: set[int] = set()
        follows: set[int] = set()
        for position in reads:
            box = regions[position]
            storage = box[0]
            if storage in skip:
                continue
            state = states.get(storage)
            if state is None:
                state = states[storage] = _StorageState()
            slot = state.known.get(box)
            if slot is None:
                slot = state.add(box)
            for other in state.overlaps[slot]:
                writer = state.writer[other]
                if writer >= 0:
                    needs.add(writer)
            state.readers[slot].append(index)
        for position in writes:
            box = regions[position]
            storage = box[0]
            if storage in skip:
                continue
            state = states.get(storage)
            if state is None:
                state = states[storage] = _StorageState()
                taken = after.get(storage)
                if taken:
                    state.inherited = _last_accesses(taken, states, queues, window)
                    for old in taken:
                        states.pop(old, None)
            slot = state.known.get(box)
            if slot is None:
                slot = state.add(box)
            fresh = True
            for other in state.overlaps[slot]:
                writer = state.writer[other]
                if writer >= 0:
                    fresh = False
                    if accumulates and (storage not in psum or queues[writer] != queue):
                        needs.add(writer)
                    else:
                        follows.add(writer)
                readers = state.readers[other]
                if readers:
                    if len(readers) > 4:
                        readers = _latest(readers, queues, window)
                    follows.update(readers)
            if fresh:
                follows.update(state.inherited)
            for other in state.inside[slot]:
                state.writer[other] = index
                if state.readers[other]:
                    state.readers[other] = []
        follows -= needs
        follows.discard(index)
        needs.discard(index)
        total = 0
        for before in needs:
            total += 1
            users = uses[before]
            if users is None:
                uses[before] = [index]
            else:
                users.append(index)
        for before in follows:
            if queues[before] == queue and (in_order or ordinals[before] <= horizon):
                continue
            total += 1
            users = orders[before]
            if users is None:
                orders[before] = [index]
            else:
                users.append(index)
        waits[index] = total
    return Edges(waits, uses, orders)


def compute_ordinals(queues: list[int]) -> list[int]:
    """Number of compute instructions before each instruction."""
    ordinals = []
    count = 0
    for queue in queues:
        ordinals.append(count)
        if queue < COMPUTE_QUEUES:
            count += 1
    return ordinals


def _latest(readers: list[int], queues: list[int], window: int) -> list[int]:
    """The readers that matter: the last of each queue, and all that may still be reordered."""
    horizon = readers[-1] - window
    seen: set[int] = set()
    kept = []
    for reader in reversed(readers):
        queue = queues[reader]
        if queue not in seen or (reader > horizon and queue < COMPUTE_QUEUES):
            seen.add(queue)
            kept.append(reader)
    return kept


def _last_accesses(
    storages: tuple[int, ...],
    states: dict[int, _StorageState],
    queues: list[int],
    window: int,
) -> tuple[int, ...]:
    """Instructions after which nobody uses these storages any more."""
    found: set[int] = set()
    for storage in storages:
        state = states.get(storage)
        if state is None:
            continue
        for writer in state.writer:
            if writer >= 0:
                found.add(writer)
        for readers in state.readers:
            found.update(readers)
    if not found:
        return ()
    return tuple(_latest(sorted(found), queues, window))
