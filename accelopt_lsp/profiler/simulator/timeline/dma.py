"""The DMA engines that all queues share.

Every engine serves its queues in turn, one descriptor at a time, so that transfers of different
queues proceed together and slow each other down, while transfers of one queue follow each
other. Transfers that use fewer than all engines leave room for the next ones of their queue.

Source: nki-dma-overview (16 queues an engine, round robin); idle Vector time of the measured
silu kernel, whose loads share the engines with its stores.
"""

from __future__ import annotations

from collections import deque

NEVER = float("inf")
_DONE = 1e-6
"""Remaining ns below which a transfer has finished."""


class DmaEngines:
    """Transfers under way and those that were triggered.

    Attributes:
        next_event: when a transfer finishes or may begin; :data:`NEVER` when all is quiet.
    """

    __slots__ = (
        "_active",
        "_clock",
        "_engines",
        "_last",
        "_queues",
        "_slowdown",
        "_used",
        "next_event",
    )

    def __init__(self, queues: int, engines: int) -> None:
        self._queues: list[deque[tuple[float, int, float, int]]] = [deque() for _ in range(queues)]
        self._active: list[list[float | int]] = []
        self._used = [0] * queues
        self._last = [-1] * queues
        self._engines = engines
        self._clock = 0.0
        self._slowdown = 1.0
        self.next_event = NEVER

    def trigger(self, queue: int, moment: float, index: int, busy: float, engines: int) -> None:
        """A queue hands over a transfer that needs ``busy`` ns on ``engines`` engines."""
        self._queues[queue].append((moment, index, busy, engines))
        if self._used[queue] < self._engines and moment < self.next_event:
            self.next_event = moment

    def advance(self, now: float) -> tuple[list[int], list[tuple[int, int]]]:
        """Go on to ``now``, the next event.

        Returns:
            Transfers that finished, and those that began with the transfer of their queue that
            they had to wait for (-1 if none).
        """
        elapsed = (now - self._clock) / self._slowdown
        self._clock = now
        finished: list[int] = []
        active = self._active
        if active:
            remaining = []
            for transfer in active:
                transfer[0] -= elapsed
                if transfer[0] <= _DONE:
                    queue = int(transfer[2])
                    self._used[queue] -= int(transfer[3])
                    self._last[queue] = int(transfer[1])
                    finished.append(int(transfer[1]))
                else:
                    remaining.append(transfer)
            active = self._active = remaining
        began: list[tuple[int, int]] = []
        demand = 0.0
        arrival = NEVER
        for queue, waiting in enumerate(self._queues):
            while waiting and self._used[queue] < self._engines:
                moment, index, busy, engines = waiting[0]
                if moment > now:
                    arrival = min(arrival, moment)
                    break
                waiting.popleft()
                active.append([busy, index, queue, engines])
                self._used[queue] += engines
                began.append((index, self._last[queue]))
                self._last[queue] = -1
            demand += min(1.0, self._used[queue] / self._engines)
        self._slowdown = max(1.0, demand)
        if active:
            soonest = min(transfer[0] for transfer in active)
            arrival = min(arrival, now + max(soonest, 0.0) * self._slowdown)
        self.next_event = arrival
        return finished, began
