"""The clock of the Tensor Engine of NeuronCore-v3 and later.

A current limit holds the engine at about half its rate until it has been busy for a window of
about 3 us, and engages again when it was busy for less than half of such a window
(tools/neuron-explorer/troubleshooting, SDK 2.32).
"""

from __future__ import annotations

from accelopt_lsp.nki.targets import Target


class TensorClock:
    """Windows one after the other; how busy each was decides the rate of the next.

    Attributes:
        lost_ns: time that instructions took longer than at the full rate.
    """

    __slots__ = ("_active", "_fast", "_least", "_opened", "_slow", "_window", "lost_ns")

    def __init__(self, window_ns: float, slow: float, utilization: float) -> None:
        self._window = window_ns
        self._slow = slow
        self._least = utilization * window_ns
        self._opened = float("-inf")
        self._active = 0.0
        self._fast = False
        self.lost_ns = 0.0

    @classmethod
    def of(cls, target: Target) -> TensorClock | None:
        """The clock of a generation, or None if it does not throttle."""
        window = target.get("pe_warmup_ns")
        if not window:
            return None
        return cls(window, target["pe_warmup_share"], target["pe_warmup_utilization"])

    def run(self, start: float, work_ns: float) -> float:
        """When an instruction ends that starts at ``start`` and takes ``work_ns`` at full rate.

        Instructions have to be run in order of their start.
        """
        window = self._window
        if start >= self._opened + 2 * window:
            # At least one whole window was idle; the next one opens with the first instruction.
            self._opened, self._active, self._fast = start, 0.0, False
        elif start >= self._opened + window:
            self._close()
        now, remaining = start, work_ns
        while True:
            rate = 1.0 if self._fast else self._slow
            room = self._opened + window - now
            needed = remaining / rate
            if needed <= room:
                self._active += needed
                end = now + needed
                self.lost_ns += end - start - work_ns
                return end
            self._active += room
            remaining -= room * rate
            now += room
            self._close()

    def _close(self) -> None:
        self._fast = self._active >= self._least
        self._opened += self._window
        self._active = 0.0
