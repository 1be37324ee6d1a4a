"""Loops that the legacy compiler runs together, iteration by iteration.

A loop that makes tiles and a later one that uses them, tile for tile, need room for all tiles in
between. Where they do not fit, the compiler runs both loops as one, so that each tile is used
right after it was made. Loads that stand between the two move ahead of them. Source: spill
counters of the measured swiglu, whose gates (384 KiB a partition) are not spilled, while its
transposed input, which every iteration of the joint loop uses, is saved and re-loaded whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator.timeline.stream import Queue, Stream
from accelopt_lsp.profiler.simulator.trace import Trace


@define(slots=True, eq=False)
class _Loop:
    """Iterations in order, each a sequence of spans of records and inner loops.

    ``span``: all its records, as long as nothing in it changed its place; ``nested``: there are
    loops in it.
    """

    span: _Span | None
    iterations: list[list[_Item]] = field(factory=list)
    nested: bool = False


_Span = tuple[int, int]
"""First record and end of the records."""
_Item = _Span | _Loop


def fuse_loops(stream: Stream, trace: Trace) -> Stream:
    """Run loops together that hand tiles over, at every level of nesting.

    ``stream`` is the issued stream of ``trace``. Returns the same stream where nothing changes.
    """
    if not len(trace.iterations):
        return stream
    fuser = _Fuser(stream)
    program, changed = fuser.fused(_program(trace))
    if not changed:
        return stream
    result = stream.same_tables()
    for first, end in _spans(program):
        result.codes += stream.codes[first:end]
        result.regions += stream.regions[first:end]
    return result


def _program(trace: Trace) -> list[_Item]:
    """The records as nested loops."""
    pending: dict[int, list[tuple[int, int, int, _Loop]]] = {}
    numbers = trace.iterations.tolist()
    for depth, value, first, end in zip(
        numbers[0::4], numbers[1::4], numbers[2::4], numbers[3::4], strict=True
    ):
        inner = pending.pop(depth + 1, None)
        body: list[_Item] = _items(inner, first, end) if inner else [(first, end)]
        loops = pending.setdefault(depth, [])
        if loops and loops[-1][2] == first and loops[-1][0] < value:
            _, start, _, loop = loops.pop()
        else:
            start, loop = first, _Loop((first, end))
        loop.span = start, end
        loop.nested = loop.nested or inner is not None
        loop.iterations.append(body)
        loops.append((value, start, end, loop))
    return _items(pending.get(0, []), 0, len(trace))


def _items(loops: list[tuple[int, int, int, _Loop]], first: int, end: int) -> list[_Item]:
    items: list[_Item] = []
    for _, start, stop, loop in loops:
        if start > first:
            items.append((first, start))
        items.append(loop)
        first = stop
    if end > first:
        items.append((first, end))
    return items


def _spans(items: list[_Item]) -> Iterator[_Span]:
    for item in items:
        if not isinstance(item, _Loop):
            yield item
        elif item.span is not None:
            yield item.span
        else:
            for body in item.iterations:
                yield from _spans(body)


class _Fuser:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._reads = [op.reads for op in stream.ops]
        self._writes = [op.writes for op in stream.ops]
        self._loads = [op.queue is Queue.LOAD for op in stream.ops]
        self._hbm = [s.buffer is Buffer.HBM for s in stream.storages]

    def fused(self, items: list[_Item]) -> tuple[list[_Item], bool]:
        """The same work, with loops run together where that is allowed; whether any were."""
        result = list(items)
        changed = False
        at = 0
        while at < len(result):
            first = result[at]
            if isinstance(first, _Loop):
                partner = self._partner(result, at)
                if partner is not None:
                    second = result[partner]
                    assert isinstance(second, _Loop)
                    pairs = zip(first.iterations, second.iterations, strict=True)
                    joint = _Loop(None, [[*a, *b] for a, b in pairs], first.nested or second.nested)
                    result[at : partner + 1] = [*result[at + 1 : partner], joint]
                    changed = True
                    continue
            at += 1
        for item in result:
            if isinstance(item, _Loop) and item.nested:
                bodies = [self.fused(body) for body in item.iterations]
                if any(moved for _, moved in bodies):
                    item.span, changed = None, True
                item.iterations = [body for body, _ in bodies]
        return result, changed

    def _partner(self, items: list[_Item], at: int) -> int | None:
        """The next loop that can run together with the one at ``at``, past loads only."""
        first = items[at]
        assert isinstance(first, _Loop)
        if self._only_loads(first):
            return None
        made: list[tuple[set[int], set[int]]] = []
        for position in range(at + 1, len(items)):
            second = items[position]
            loads = self._only_loads(second)
            if (
                not loads
                and isinstance(second, _Loop)
                and len(second.iterations) == len(first.iterations) > 1
            ):
                made = made or [self._touched(body) for body in first.iterations]
                moved = self._touched(items[at + 1 : position])
                if self._independent(moved, made) and self._allowed(made, second):
                    return position
            if not loads:
                return None
        return None

    def _only_loads(self, item: _Item) -> bool:
        codes, loads = self.stream.codes, self._loads
        return all(loads[code] for first, end in _spans([item]) for code in codes[first:end])

    def _touched(self, body: list[_Item]) -> tuple[set[int], set[int]]:
        """Storages that are read and written."""
        reads: set[int] = set()
        writes: set[int] = set()
        stream = self.stream
        for first, end in _spans(body):
            for index in range(first, end):
                code, regions = stream.codes[index], stream.regions[index]
                reads.update(regions[p][0] for p in self._reads[code])
                writes.update(regions[p][0] for p in self._writes[code])
        return reads, writes

    def _allowed(self, made: list[tuple[set[int], set[int]]], second: _Loop) -> bool:
        """Whether each iteration of ``second`` needs only what came before it in the joint loop.

        And takes tiles over from the first loop: else there is nothing to gain.
        """
        later_reads: set[int] = set()
        later_writes: set[int] = set()
        hands_over = False
        for number in range(len(made) - 1, -1, -1):
            reads, writes = self._touched(second.iterations[number])
            if not later_writes.isdisjoint(reads | writes) or not later_reads.isdisjoint(writes):
                return False
            taken = made[number][1] & reads
            if any(self._hbm[storage] for storage in taken):
                return False
            hands_over = hands_over or bool(taken)
            later_reads |= made[number][0]
            later_writes |= made[number][1]
        return hands_over

    @staticmethod
    def _independent(
        moved: tuple[set[int], set[int]], made: list[tuple[set[int], set[int]]]
    ) -> bool:
        """Whether work may go ahead of all iterations of a loop."""
        reads, writes = moved
        return all(reads.isdisjoint(w) and writes.isdisjoint(r | w) for r, w in made)
