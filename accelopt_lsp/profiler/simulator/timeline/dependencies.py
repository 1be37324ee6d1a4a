"""Which instruction has to wait for which: reads, writes, re-used room, and the turn of re-loads.

Regions are boxes (partitions x bytes). A kernel touches a storage through few distinct boxes,
so overlaps are found once per pair of boxes and then looked up.
"""

from __future__ import annotations

from attrs import define, field

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator.timeline.slots import Slots
from accelopt_lsp.profiler.simulator.timeline.stream import COMPUTE_QUEUES, Queue, Stream
from accelopt_lsp.profiler.simulator.trace import Region


@define(slots=True)
class Edges:
    """Dependencies of a stream.

    Attributes:
        waits: number of instructions that each one waits for.
        uses: for each instruction, those that use its result (they wait for its latency).
        orders: for each instruction, those that only have to come after it.
        turns: for each re-load, those before it in ``orders`` that free no place for it: it
            comes after them because its engine does (:class:`_Horizon`).
    """

    waits: list[int]
    uses: list[list[int] | None]
    orders: list[list[int] | None]
    turns: dict[int, frozenset[int]] = field(factory=dict)


class _Boxes:
    """Last writer and readers since, for every box of one storage."""

    __slots__ = ("boxes", "inside", "known", "overlaps", "readers", "writer")

    def __init__(self) -> None:
        self.known: dict[Region, int] = {}
        self.boxes: list[Region] = []
        self.overlaps: list[list[int]] = []
        self.inside: list[list[int]] = []
        self.writer: list[int] = []
        self.readers: list[list[int]] = []

    def slot(self, box: Region) -> int:
        """Number of a box; a new one is related to those known."""
        found = self.known.get(box)
        if found is not None:
            return found
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


_MANY: Region = (-1, 0, 0, 0, 0)
"""Stands for the box of a storage that is touched through several: equal to none of them."""


class _Tracker:
    """Who touched which storage last.

    Most storages are only ever touched as a whole: these are one entry in three lists. A
    storage that is touched through several boxes moves to :class:`_Boxes`.
    """

    __slots__ = ("box", "many", "psum", "queues", "reads", "window", "writer")

    def __init__(self, stream: Stream, queues: list[int], window: int) -> None:
        count = len(stream.storages)
        self.box: list[Region | None] = [None] * count
        self.writer = [-1] * count
        self.reads: list[list[int]] = [[] for _ in range(count)]
        self.many: dict[int, _Boxes] = {}
        self.psum = [s.buffer is Buffer.PSUM for s in stream.storages]
        self.queues = queues
        self.window = window

    def boxes(self, storage: int) -> _Boxes:
        """The storage box by box."""
        found = self.many.get(storage)
        if found is None:
            found = self.many[storage] = _Boxes()
            whole = self.box[storage]
            if whole is not None:
                found.slot(whole)
                found.writer[0] = self.writer[storage]
                found.readers[0] = self.reads[storage]
            self.box[storage] = _MANY
        return found

    def read(self, box: Region, index: int, needs: list[int]) -> None:
        """Record a read of part of a storage that is touched through several boxes."""
        state = self.boxes(box[0])
        slot = state.slot(box)
        for other in state.overlaps[slot]:
            if state.writer[other] >= 0:
                needs.append(state.writer[other])
        state.readers[slot].append(index)

    def write(
        self, box: Region, index: int, needs: list[int], follows: list[int], accumulates: bool
    ) -> bool:
        """Record a write; True if nothing of it had been written before."""
        state = self.boxes(box[0])
        slot = state.slot(box)
        fresh = True
        for other in state.overlaps[slot]:
            writer = state.writer[other]
            if writer >= 0:
                fresh = False
                self.after_writer(writer, box[0], index, needs, follows, accumulates)
            self.after_readers(state.readers[other], follows)
        for other in state.inside[slot]:
            state.writer[other] = index
            state.readers[other] = []
        return fresh

    def after_writer(
        self,
        writer: int,
        storage: int,
        index: int,
        needs: list[int],
        follows: list[int],
        accumulates: bool,
    ) -> None:
        """Products that one engine adds up in PSUM do not wait for each other's latency."""
        if accumulates and (not self.psum[storage] or self.queues[writer] != self.queues[index]):
            needs.append(writer)
        else:
            follows.append(writer)

    def after_readers(self, readers: list[int], follows: list[int]) -> None:
        if readers:
            if len(readers) > 4:
                readers = _latest(readers, self.queues, self.window)
            follows.extend(readers)

    def finals(self, storages: tuple[int, ...]) -> tuple[int, ...]:
        """Instructions after which nobody uses these storages any more; forgets them."""
        if len(storages) == 1 and storages[0] not in self.many:
            only = storages[0]
            readers = self.reads[only]
            if len(readers) < 4:
                return (self.writer[only], *readers) if self.writer[only] >= 0 else tuple(readers)
        found: list[int] = []
        for storage in storages:
            state = self.many.pop(storage, None)
            if state is None:
                if self.writer[storage] >= 0:
                    found.append(self.writer[storage])
                self.after_readers(self.reads[storage], found)
                continue
            found += [writer for writer in state.writer if writer >= 0]
            for readers in state.readers:
                self.after_readers(readers, found)
        if len(found) > 4:
            return tuple(_latest(sorted(set(found)), self.queues, self.window))
        return tuple(found)


def untracked(stream: Stream) -> set[int]:
    """HBM storages that are only read or only written: nothing can wait for them."""
    transfers = {code: op for code, op in enumerate(stream.ops) if op.engines}
    read: set[int] = set()
    written: set[int] = set()
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        if code in transfers:
            op = transfers[code]
            read.update(regions[p][0] for p in op.reads)
            written.update(regions[p][0] for p in op.writes)
    both = read & written
    return {s.id for s in stream.storages if s.buffer is Buffer.HBM and s.id not in both}


def dependencies(stream: Stream, slots: Slots, window: int) -> Edges:
    """All dependencies of a stream.

    ``window`` says how far instructions of one engine may be reordered: within it, being on
    the same engine is no order.
    """
    count = len(stream)
    waits = [0] * count
    uses: list[list[int] | None] = [None] * count
    orders: list[list[int] | None] = [None] * count
    skipped = bytearray(len(stream.storages))
    for storage in untracked(stream):
        skipped[storage] = 1
    table = [(op.reads, op.writes, int(op.queue), op.accumulates) for op in stream.ops]
    queues = [table[code][2] for code in stream.codes]
    tracker = _Tracker(stream, queues, window)
    boxes, writers, readers = tracker.box, tracker.writer, tracker.reads
    inherited: dict[int, tuple[int, ...]] = {}
    ordinals = compute_ordinals(queues) if window else []
    horizon = _Horizon(window, ordinals) if window else None
    turns: dict[int, frozenset[int]] = {}
    for index, (code, regions) in enumerate(zip(stream.codes, stream.regions, strict=True)):
        reads, writes, queue, accumulates = table[code]
        needs: list[int] = []
        follows: list[int] = []
        turn: list[int] = []
        if horizon is not None:
            if queue < COMPUTE_QUEUES:
                horizon.issues(queue, index)
            elif queue == Queue.RELOAD:
                turn = horizon.before(index)
        for position in reads:
            box = regions[position]
            storage = box[0]
            if skipped[storage]:
                continue
            known = boxes[storage]
            if known is None:
                known = boxes[storage] = box
            if known == box:
                if writers[storage] >= 0:
                    needs.append(writers[storage])
                readers[storage].append(index)
            else:
                tracker.read(box, index, needs)
        for position in writes:
            box = regions[position]
            storage = box[0]
            if skipped[storage]:
                continue
            known = boxes[storage]
            if known is None:
                known = boxes[storage] = box
                taken = slots.after.get(storage)
                if taken:
                    inherited[storage] = tracker.finals(taken)
            if known == box:
                writer = writers[storage]
                fresh = writer < 0
                if not fresh:
                    tracker.after_writer(writer, storage, index, needs, follows, accumulates)
                if readers[storage]:
                    tracker.after_readers(readers[storage], follows)
                    readers[storage] = []
                writers[storage] = index
            else:
                fresh = tracker.write(box, index, needs, follows, accumulates)
            if fresh and storage in inherited:
                follows += inherited[storage]
        if turn:
            turns[index] = frozenset(turn).difference(follows)
            follows += turn
        # Nothing that an instruction needs can be itself: its own writes come last.
        awaited = needs if len(needs) < 2 else list(dict.fromkeys(needs))
        total = len(awaited)
        for before in awaited:
            users = uses[before]
            if users is None:
                uses[before] = [index]
            else:
                users.append(index)
        in_order = window == 0 or queue >= COMPUTE_QUEUES
        for before in follows if len(follows) < 2 else dict.fromkeys(follows):
            if before == index or before in awaited:
                continue
            if queues[before] == queue and (
                in_order or ordinals[before] <= ordinals[index] - window
            ):
                continue
            total += 1
            users = orders[before]
            if users is None:
                orders[before] = [index]
            else:
                users.append(index)
        waits[index] = total
    return Edges(waits, uses, orders, turns)


class _Horizon:
    """How far ahead of the compute instructions a re-load may be issued.

    The compiler puts a re-load into the instruction stream of the engine that uses the tile, so
    it issues within the same window as that engine's instructions, and no earlier, although it
    depends on nothing but room. Source: the measured mamba, in which every re-load of an
    accumulator is waited for, and gqa_full, whose rows of scores hardly overlap.
    """

    __slots__ = ("_lines_up", "_ordinals", "_reached", "_window")

    def __init__(self, window: int, ordinals: list[int]) -> None:
        self._window = window
        self._ordinals = ordinals
        self._lines_up: list[list[int]] = [[] for _ in range(COMPUTE_QUEUES)]
        self._reached = [-1] * COMPUTE_QUEUES

    def issues(self, queue: int, index: int) -> None:
        """Record a compute instruction."""
        self._lines_up[queue].append(index)

    def before(self, index: int) -> list[int]:
        """The last instruction of each engine that lies a window or more before ``index``."""
        ordinals = self._ordinals
        limit = ordinals[index] - self._window
        found = []
        for queue, line_up in enumerate(self._lines_up):
            at = self._reached[queue]
            while at + 1 < len(line_up) and ordinals[line_up[at + 1]] <= limit:
                at += 1
            self._reached[queue] = at
            if at >= 0:
                found.append(line_up[at])
        return found


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
