"""The event loop: engines, DMA queues and the DMA engines they share, in order of time.

Compute engines take one instruction at a time. A DMA queue triggers its transfers in program
order; triggered transfers of different queues take turns on the DMA engines. Transfers that use
fewer than all engines leave room for others: the engines serve them as one pool with the
capacity of all, and a transfer takes at least its own engines' time.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from attrs import define

from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator.timeline.dependencies import Edges, compute_ordinals
from accelopt_lsp.profiler.simulator.timeline.stream import COMPUTE_QUEUES, Queue, Stream

_NEVER = float("inf")
_QUEUES = len(Queue)
_POOL = _QUEUES
"""Index of the DMA engines among the event sources."""


@define(slots=True)
class Times:
    """When everything happened, in ns from the launch.

    Attributes:
        start: an engine begins the instruction; for a transfer, the DMA engines begin it.
        end: the engine is free again (transfers: the last byte has moved).
        visible: the result can be used.
        cause: the instruction that it waited for last, or -1.
        trigger: when the queue triggered a transfer; equals ``start`` for the rest.
        since: when the last thing that it waited for had happened.
        finish: time of the last event.
    """

    start: list[float]
    end: list[float]
    visible: list[float]
    cause: list[int]
    trigger: list[float]
    since: list[float]
    finish: float


def schedule(stream: Stream, edges: Edges, window: int, target: Target) -> Times:
    """Run a stream through the engines.

    ``window``: instructions may issue at most this far, in program order over all compute
    engines, ahead of the oldest that has not; 0 keeps every engine in program order.
    """
    count = len(stream)
    semaphore = target["semaphore_ns"]
    trigger_ns = target["dma_trigger_ns"]
    engines = target["dma_engines"]
    launch = target["launch_ns"]
    ops = stream.ops
    queue_of = [int(op.queue) for op in ops]
    busy_of = [op.busy_ns for op in ops]
    latency_of = [op.latency_ns for op in ops]
    pool_of = [op.busy_ns * op.engines / engines for op in ops]
    codes = stream.codes
    queues = [queue_of[code] for code in codes]
    waits, uses, orders = list(edges.waits), edges.uses, edges.orders

    start, end, visible = [0.0] * count, [0.0] * count, [0.0] * count
    trigger, since = [0.0] * count, [0.0] * count
    ready, cause = [launch] * count, [-1] * count
    free, last_on = [launch] * (_QUEUES + 1), [-1] * (_QUEUES + 1)
    event = [_NEVER] * (_QUEUES + 1)
    waiting: list[list[tuple[float, int]]] = [[] for _ in range(_QUEUES)]
    available: list[list[int]] = [[] for _ in range(_QUEUES)]
    triggered: list[deque[tuple[float, int]]] = [deque() for _ in range(_QUEUES)]
    turn = 0

    in_order = [window == 0 or q >= COMPUTE_QUEUES for q in range(_QUEUES)]
    line_up: list[list[int]] = [[] for _ in range(_QUEUES)]
    for index, queue in enumerate(queues):
        line_up[queue].append(index)
    position = [0] * _QUEUES
    ordinals = compute_ordinals(queues)
    compute = [i for i, q in enumerate(queues) if q < COMPUTE_QUEUES] if window else []
    issued = bytearray(len(compute))
    oldest = 0

    def admit(index: int, queue: int) -> None:
        """Let an instruction whose dependencies have all issued compete for its engine."""
        heappush(waiting[queue], (ready[index], index))
        if not available[queue]:
            moment = waiting[queue][0][0]
            event[queue] = max(free[queue], moment)

    def release(users: list[int], index: int, queue: int, moment: float) -> None:
        """Tell the instructions that wait for one that just issued when they can go on."""
        distant = moment + semaphore
        for user in users:
            user_queue = queues[user]
            when = moment if user_queue == queue else distant
            if when > ready[user]:
                ready[user] = when
                cause[user] = index
            waits[user] -= 1
            if waits[user] == 0:
                if in_order[user_queue]:
                    if line_up[user_queue][position[user_queue]] == user:
                        admit(user, user_queue)
                elif ordinals[user] < oldest + window:
                    admit(user, user_queue)

    for queue in range(_QUEUES):
        if in_order[queue] and line_up[queue] and waits[line_up[queue][0]] == 0:
            admit(line_up[queue][0], queue)
    if window:
        for index in compute[:window]:
            if waits[index] == 0:
                admit(index, queues[index])

    while True:
        now = min(event)
        if now == _NEVER:
            break
        queue = event.index(now)
        if queue == _POOL:
            for step in range(1, _QUEUES + 1):
                candidate = triggered[(turn + step) % _QUEUES]
                if candidate and candidate[0][0] <= now:
                    turn = (turn + step) % _QUEUES
                    break
            arrival, index = triggered[turn].popleft()
            code = codes[index]
            if arrival < free[_POOL] and last_on[_POOL] >= 0:
                cause[index] = last_on[_POOL]
                since[index] = now
            start[index] = now
            finish = end[index] = now + busy_of[code]
            free[_POOL] = now + pool_of[code]
            last_on[_POOL] = index
            arrivals = [t[0][0] for t in triggered if t]
            if arrivals:
                first = min(arrivals)
                event[_POOL] = max(free[_POOL], first)
            else:
                event[_POOL] = _NEVER
        else:
            pending, choices = waiting[queue], available[queue]
            while pending and pending[0][0] <= now:
                heappush(choices, heappop(pending)[1])
            index = heappop(choices)
            code = codes[index]
            if free[queue] > ready[index]:
                cause[index] = last_on[queue]
            start[index] = trigger[index] = since[index] = now
            last_on[queue] = index
            if queue < COMPUTE_QUEUES:
                finish = end[index] = free[queue] = now + busy_of[code]
            else:
                finish = free[queue] = now + trigger_ns
            if in_order[queue]:
                position[queue] += 1
                if position[queue] < len(line_up[queue]):
                    following = line_up[queue][position[queue]]
                    if waits[following] == 0:
                        heappush(pending, (ready[following], following))
            elif window:
                ordinal = ordinals[index]
                issued[ordinal] = 1
                if ordinal == oldest:
                    limit = len(compute)
                    before = oldest
                    while oldest < limit and issued[oldest]:
                        oldest += 1
                    for other in compute[before + window : oldest + window]:
                        if waits[other] == 0:
                            if ready[other] < now:
                                ready[other] = now
                                cause[other] = index
                            admit(other, queues[other])
            if choices:
                event[queue] = free[queue]
            elif pending:
                moment = pending[0][0]
                event[queue] = max(free[queue], moment)
            else:
                event[queue] = _NEVER
            if queue >= COMPUTE_QUEUES:
                triggered[queue].append((finish, index))
                if event[_POOL] == _NEVER or finish < event[_POOL]:
                    event[_POOL] = max(free[_POOL], finish)
                continue
        seen = visible[index] = finish + latency_of[code]
        users = uses[index]
        if users is not None:
            release(users, index, queue, seen)
        users = orders[index]
        if users is not None:
            release(users, index, queue, finish if queue < COMPUTE_QUEUES else seen)
    return Times(start, end, visible, cause, trigger, since, max(visible, default=launch))
