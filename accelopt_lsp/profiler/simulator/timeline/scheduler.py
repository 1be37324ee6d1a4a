"""The event loop: engines, DMA queues and the DMA engines they share, in order of time.

Compute engines take one instruction at a time; a DMA queue triggers its transfers in program
order and leaves them to the DMA engines (:mod:`dma`).
"""

from __future__ import annotations

from heapq import heappop, heappush

from attrs import define

from accelopt_lsp.nki.ports import PORT_SETS
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator.timeline.dependencies import Edges, compute_ordinals
from accelopt_lsp.profiler.simulator.timeline.dma import NEVER, DmaEngines
from accelopt_lsp.profiler.simulator.timeline.machine import RIVALS, machine_of
from accelopt_lsp.profiler.simulator.timeline.policy import Policy
from accelopt_lsp.profiler.simulator.timeline.stream import COMPUTE_QUEUES, Queue, Stream

_QUEUES = len(Queue)
_TENSOR = int(Queue.TENSOR)
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
        throttled_ns: time that the Tensor Engine took longer than at its full clock.
        exposed_ns: time that it loaded stationary operands while nothing else ran on it, less
            the time of transposes that ran beside other products.
    """

    start: list[float]
    end: list[float]
    visible: list[float]
    cause: list[int]
    trigger: list[float]
    since: list[float]
    finish: float
    throttled_ns: float = 0.0
    exposed_ns: float = 0.0


def schedule(stream: Stream, edges: Edges, policy: Policy, target: Target) -> Times:
    """Run a stream through the engines under the rules of ``policy``."""
    count = len(stream)
    window = policy.window
    semaphore = target["semaphore_ns"]
    machine = machine_of(stream, policy, target)
    trigger_of, ports_of = machine.trigger, machine.ports
    load_of, hidden_of = machine.load, machine.hidden
    shares, clock = machine.shares, machine.clock
    port_free, holder = [0.0] * PORT_SETS, [-1] * PORT_SETS
    exposed = 0.0
    dma = DmaEngines(_QUEUES, target.integer("dma_engines"))
    launch = target["launch_ns"]
    ops = stream.ops
    queue_of = [int(op.queue) for op in ops]
    busy_of, latency_of = machine.busy, machine.latency
    engines_of = [op.engines for op in ops]
    codes = stream.codes
    queues = [queue_of[code] for code in codes]
    waits, uses, orders = list(edges.waits), edges.uses, edges.orders

    start, end, visible = [0.0] * count, [0.0] * count, [0.0] * count
    trigger, since = [0.0] * count, [0.0] * count
    ready, cause = [launch] * count, [-1] * count
    free, last_on = [launch] * _QUEUES, [-1] * _QUEUES
    event = [NEVER] * (_QUEUES + 1)
    waiting: list[list[tuple[float, int]]] = [[] for _ in range(_QUEUES)]
    available: list[list[int]] = [[] for _ in range(_QUEUES)]

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
        if now == NEVER:
            break
        queue = event.index(now)
        if queue == _POOL:
            finished, began = dma.advance(now)
            for index, before in began:
                start[index] = since[index] = now
                if now > trigger[index] + trigger_of[codes[index]]:
                    cause[index] = before
                else:
                    since[index] = trigger[index]
            for index in finished:
                end[index] = now
                seen = visible[index] = now + latency_of[codes[index]]
                users = uses[index]
                if users is not None:
                    release(users, index, queues[index], seen)
                users = orders[index]
                if users is not None:
                    release(users, index, queues[index], now)
            event[_POOL] = dma.next_event
            continue
        pending, choices = waiting[queue], available[queue]
        while pending and pending[0][0] <= now:
            heappush(choices, heappop(pending)[1])
        held = 0
        if shares:
            held = ports_of[codes[choices[0]]] if queue < COMPUTE_QUEUES else 0
            if held:
                moment = port_free[held]
                if moment > now:
                    event[queue] = moment
                    continue
                for rival in RIVALS[queue]:
                    # Whoever comes first in the program goes first.
                    line = available[rival]
                    if event[rival] == now and line and line[0] < choices[0]:
                        queue, choices, pending = rival, line, waiting[rival]
                        held = ports_of[codes[choices[0]]]
                        break
        index = heappop(choices)
        code = codes[index]
        if free[queue] > ready[index]:
            cause[index] = last_on[queue]
        if held:
            if port_free[held] > ready[index] and port_free[held] > free[queue]:
                cause[index] = holder[held]
        start[index] = trigger[index] = since[index] = now
        if queue == _TENSOR:
            extra = load_of[code] if now > free[queue] else -hidden_of[code]
            busy = busy_of[code] + extra
            exposed += extra
            last_on[queue] = index
            finish = now + busy if clock is None else clock.run(now, busy)
            end[index] = free[queue] = finish
        elif queue < COMPUTE_QUEUES:
            last_on[queue] = index
            finish = end[index] = free[queue] = now + busy_of[code]
            if held:
                for ports in range(1, PORT_SETS):
                    if ports & held and port_free[ports] < finish:
                        port_free[ports], holder[ports] = finish, index
        else:
            last_on[queue] = index
            finish = free[queue] = now + trigger_of[code]
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
            event[queue] = NEVER
        if queue >= COMPUTE_QUEUES:
            dma.trigger(queue, finish, index, busy_of[code], engines_of[code])
            event[_POOL] = dma.next_event
            continue
        seen = visible[index] = finish + latency_of[code]
        users = uses[index]
        if users is not None:
            release(users, index, queue, seen)
        users = orders[index]
        if users is not None:
            release(users, index, queue, finish)
    return Times(
        start,
        end,
        visible,
        cause,
        trigger,
        since,
        max(visible, default=launch),
        0.0 if clock is None else clock.lost_ns,
        exposed,
    )
