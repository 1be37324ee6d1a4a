"""What the optimization memory has learned, at hand for hovers.

The memory lives in a database that the worker reads. A hover waits for it only briefly: what
comes later is there for the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from accelopt_lsp.server.analyses import Worker, WorkerError
from accelopt_lsp.server.snapshot import KernelView, Learned, Situation

PATIENCE_SECONDS = 0.03
FRESH_SECONDS = 30.0


def situation(
    kernel: KernelView, line: int | None = None, instruction: str | None = None
) -> Situation:
    """What a kernel does, at one line or anywhere, and what bounds it.

    Args:
        line: of the analysed text; None takes the whole kernel.
        instruction: one that is asked about besides.
    """
    work = kernel.workload
    issued: Mapping[str, int] = {}
    if work is not None and line is None:
        issued = work.issued.instructions
    elif work is not None:
        issued = next((w.issued.instructions for w in work.lines if w.line == line), {})
    names = (instruction, *issued) if instruction is not None else tuple(issued)
    bound = kernel.profile.bound if kernel.profile is not None else None
    loops = work.loops if work is not None else ()
    depths = (sum(a.line <= x.line <= a.end_line for a in loops) for x in loops)
    return Situation(
        kernel=kernel.qualname,
        instructions=tuple(dict.fromkeys(names)),
        bottleneck=bound,
        dialect=kernel.dialect,
        target=kernel.target,
        loops=max(depths, default=0),
        arguments=kernel.arguments,
        profile=kernel.profile,
    )


class Strategies:
    """Learned strategies by situation, remembered for a while."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._known: dict[Situation, tuple[float, tuple[Learned, ...]]] = {}
        self._asking: dict[Situation, asyncio.Task[None]] = {}

    async def of(self, situation: Situation) -> tuple[Learned, ...]:
        """What fits; empty while nothing is known."""
        if not situation.instructions:
            return ()
        now = asyncio.get_running_loop().time()
        asked, found = self._known.get(situation, (-FRESH_SECONDS, ()))
        if now - asked < FRESH_SECONDS:
            return found
        if situation not in self._asking:
            task = asyncio.create_task(self._ask(situation))
            self._asking[situation] = task
            task.add_done_callback(lambda _: self._asking.pop(situation, None))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.shield(self._asking[situation])
        return self._known.get(situation, (0.0, found))[1]

    async def _ask(self, situation: Situation) -> None:
        with contextlib.suppress(WorkerError):
            found = await self._worker.request("strategies", situation, urgent=True)
            now = asyncio.get_running_loop().time()
            while len(self._known) > 500:
                self._known.pop(next(iter(self._known)))
            self._known[situation] = (now, tuple(found))

    def forget(self) -> None:
        """A run may have taught something new."""
        self._known.clear()
