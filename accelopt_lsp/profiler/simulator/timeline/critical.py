"""The critical path: which resource held the kernel up at every moment of its run.

A walk back from the last event. What an instruction waited for last says where to go on, so
that every nanosecond belongs to one instruction and to one resource, and all of them add up to
the latency.

Waiting for room needs a rule of its own, because whoever frees a place is busy meanwhile. Between
one room wait of the path and the next lies a lap: a place is filled, used and freed. With more
places laps would overlap until an engine is busy all the time. So of each lap the time in which
its busiest engine works belongs to that engine, and the rest is waiting for room, but no more
than the instruction that filled the place could have begun earlier.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise

from attrs import define, field

from accelopt_lsp.nki.profile import Resource, Wait
from accelopt_lsp.profiler.simulator.timeline.schedule import Schedule
from accelopt_lsp.profiler.simulator.timeline.stream import COMPUTE_QUEUES, Queue

_BUSY = {
    Queue.TENSOR: Resource.TENSOR,
    Queue.VECTOR: Resource.VECTOR,
    Queue.SCALAR: Resource.SCALAR,
    Queue.GPSIMD: Resource.GPSIMD,
}
_ENGINES = (*_BUSY.values(), Resource.DMA_BANDWIDTH)
_RESOURCES = [
    (_BUSY[queue], Resource.ENGINE_LATENCY)
    if queue in _BUSY
    else (Resource.DMA_BANDWIDTH, Resource.DMA_LATENCY)
    for queue in Queue
]
_EPSILON = 1e-3
"""Times that differ by less (in ns) are the same moment."""


@define(slots=True)
class Path:
    """A critical path.

    Attributes:
        pieces: (instruction or -1, resource, begin, end) in ns, last one first, without gaps;
            room is no resource here.
        rooms: (number of pieces before it, instruction) of every wait for room on the path.
        by_resource: time by resource, room included; adds up to the latency.
        by_code: time by op code, launch not included.
    """

    pieces: list[tuple[int, Resource, float, float]] = field(factory=list)
    rooms: list[tuple[int, int]] = field(factory=list)
    by_resource: dict[Resource, float] = field(factory=dict)
    by_code: dict[int, float] = field(factory=dict)


class Waits:
    """Who waited for whom in a schedule, and why.

    Attributes:
        queues: queue of every instruction.
        lines_up: instructions of every queue in the order in which it began them.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._times = schedule.times
        self._semaphore = schedule.target["semaphore_ns"]
        queue_of = [int(op.queue) for op in schedule.stream.ops]
        self.queues = [queue_of[code] for code in schedule.stream.codes]
        self.lines_up: list[list[int]] = [[] for _ in Queue]
        for index, queue in enumerate(self.queues):
            self.lines_up[queue].append(index)
        for line_up in self.lines_up:
            line_up.sort(key=schedule.times.trigger.__getitem__)

    def previous(self, index: int) -> int:
        """The instruction that its queue began before it, or -1."""
        trigger = self._times.trigger
        line_up = self.lines_up[self.queues[index]]
        place = bisect_left(line_up, trigger[index], key=trigger.__getitem__)
        while line_up[place] != index:
            place += 1
        return line_up[place - 1] if place else -1

    def kind(self, cause: int, index: int) -> Wait:
        """Why ``index`` had to wait for ``cause``, its last cause."""
        times = self._times
        if self.queues[cause] == self.queues[index]:
            done = times.end[cause]
            if self.queues[index] >= COMPUTE_QUEUES or times.since[index] <= done + _EPSILON:
                return Wait.ORDER
        if _among(self._schedule.edges.uses[cause], index):
            return Wait.DATA
        if _among(self._schedule.edges.orders[cause], index):
            if cause in self._schedule.edges.turns.get(index, ()):
                return Wait.ORDER
            return Wait.ROOM
        return Wait.ORDER

    def without_room(self, indices: set[int]) -> dict[int, float]:
        """When instructions could have begun if their places had been free, in ns."""
        times, queues = self._times, self.queues
        found = dict.fromkeys(indices, self._schedule.target["launch_ns"])
        for index in indices:
            before = self.previous(index)
            if before >= 0 and queues[index] < COMPUTE_QUEUES:
                found[index] = max(found[index], times.end[before])
        if not indices:
            return found
        for before, users in enumerate(self._schedule.edges.uses):
            for user in users or ():
                if user in indices:
                    ready = times.visible[before]
                    if queues[before] != queues[user]:
                        ready += self._semaphore
                    if ready > found[user]:
                        found[user] = ready
        return found


def _among(users: list[int] | None, index: int) -> bool:
    """Whether a sorted list holds an instruction."""
    if users is None:
        return False
    place = bisect_left(users, index)
    return place < len(users) and users[place] == index


def critical_path(schedule: Schedule, waits: Waits | None = None) -> Path:
    """The critical path of a schedule."""
    path = Path()
    stream, times = schedule.stream, schedule.times
    if len(stream):
        waits = waits or Waits(schedule)
        _walk(path, schedule, waits)
        for index, _, begin, end in path.pieces:
            code = stream.codes[index]
            path.by_code[code] = path.by_code.get(code, 0.0) + end - begin
    launched = path.pieces[-1][2] if path.pieces else times.finish
    if launched > 0:
        path.pieces.append((-1, Resource.LAUNCH, 0.0, launched))
    path.by_resource = _by_resource(path, schedule, waits)
    return path


def _walk(path: Path, schedule: Schedule, waits: Waits) -> None:
    times = schedule.times
    moment = times.finish
    launch = schedule.target["launch_ns"]
    queues, pieces = waits.queues, path.pieces
    begins, ends, visible = times.start, times.end, times.visible
    sinces, causes = times.since, times.cause
    data, sync = Wait.DATA, Resource.SYNC
    index = max(range(len(queues)), key=visible.__getitem__)
    kind = Wait.DATA
    steps = 0
    while index >= 0 and moment > launch and steps <= 2 * len(queues):
        steps += 1
        busy, slow = _RESOURCES[queues[index]]
        done, begun, since = ends[index], begins[index], sinces[index]
        if since < launch:
            begun, since = max(begun, launch), launch
        if kind is data:
            seen = visible[index]
            if seen < moment:
                pieces.append((index, sync, seen, moment))
                moment = seen
            if done < moment:
                pieces.append((index, slow, done, moment))
                moment = done
        elif done < moment:
            pieces.append((index, sync, done, moment))
            moment = done
        if begun < moment:
            pieces.append((index, busy, begun, moment))
            moment = begun
        if since < moment:
            pieces.append((index, slow, since, moment))
            moment = since
        cause = causes[index]
        if cause < 0:
            cause, kind = waits.previous(index), Wait.ORDER
        else:
            kind = waits.kind(cause, index)
            if kind is Wait.ROOM:
                path.rooms.append((len(pieces), index))
        index = cause


def _by_resource(path: Path, schedule: Schedule, waits: Waits | None) -> dict[Resource, float]:
    """Time by resource, with the laps' waits for room."""
    totals = dict.fromkeys(Resource, 0.0)
    for _, resource, begin, end in path.pieces:
        totals[resource] += end - begin
    if len(path.rooms) < 2 or waits is None:
        return totals
    earliest = waits.without_room({index for _, index in path.rooms})
    work = _Work(schedule, waits)
    for (later, _), (earlier, index) in pairwise(path.rooms):
        # The path runs backwards: this lap was begun by the wait that comes after it.
        pieces = path.pieces[later:earlier]
        if not pieces:
            continue
        lap = dict.fromkeys(Resource, 0.0)
        for _, resource, begin, end in pieces:
            lap[resource] += end - begin
        length = sum(lap.values())
        first, last = pieces[-1][2], pieces[0][3]
        busy = {resource: work.between(resource, first, last) for resource in _ENGINES}
        busiest = max(_ENGINES, key=lambda resource: max(busy[resource], lap[resource]))
        kept = min(length, max(busy[busiest], lap[busiest]))
        could = schedule.times.since[index] - earliest[index]
        share = min(1.0, could / (length - kept)) if length > kept else 0.0
        for resource, spent in lap.items():
            totals[resource] -= share * spent
        totals[busiest] += share * kept
        totals[Resource.ROOM] += share * (length - kept)
    return totals


class _Work:
    """How much every engine worked until any moment."""

    def __init__(self, schedule: Schedule, waits: Waits) -> None:
        ops, codes, times = schedule.stream.ops, schedule.stream.codes, schedule.times
        self._curves: dict[Resource, tuple[list[float], list[float], list[float]]] = {}
        begins, ends = times.start, times.end
        for queue, resource in _BUSY.items():
            moments: list[float] = []
            for index in waits.lines_up[queue]:
                moments += (begins[index], ends[index])
            self._curves[resource] = _curve(moments, [1.0, 0.0] * (len(moments) // 2))
        engines = schedule.target["dma_engines"]
        shares = [op.busy_ns * op.engines / engines for op in ops]
        changes: dict[float, float] = {}
        for line_up in waits.lines_up[COMPUTE_QUEUES:]:
            for index in line_up:
                begin, end = begins[index], ends[index]
                if end > begin:
                    # Transfers that share the DMA engines take longer than their work.
                    rate = shares[codes[index]] / (end - begin)
                    changes[begin] = changes.get(begin, 0.0) + rate
                    changes[end] = changes.get(end, 0.0) - rate
        moments = sorted(changes)
        rates = list(accumulate(changes[moment] for moment in moments))
        self._curves[Resource.DMA_BANDWIDTH] = _curve(moments, rates)

    def between(self, resource: Resource, first: float, last: float) -> float:
        """Work in ns between two moments."""
        moments, sums, rates = self._curves[resource]
        total = 0.0
        for moment, sign in ((last, 1.0), (first, -1.0)):
            place = bisect_right(moments, moment) - 1
            if place >= 0:
                total += sign * (sums[place] + rates[place] * (moment - moments[place]))
        return total


def _curve(
    moments: list[float], rates: list[float]
) -> tuple[list[float], list[float], list[float]]:
    """Moments, the work done until each of them, and the rate from there on."""
    steps = (
        rate * (end - begin) for rate, (begin, end) in zip(rates, pairwise(moments), strict=False)
    )
    return moments, list(accumulate(steps, initial=0.0))[: len(moments)], rates
