"""Evaluations of one run: bounded concurrency, each source once, every result in the store."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable

from attrs import evolve

from accelopt_lsp.agents.codec import dumps
from accelopt_lsp.agents.store import RunStore
from accelopt_lsp.profiler.base import Failure, FailureKind, Job, Outcome, Profiler


class OutOfEvaluations(Exception):
    """The run may not evaluate anything more."""


class Evaluator:
    """Runs sources of one problem on a profiler.

    A result is stored before it is used, so a cancelled or killed run keeps what finished, and
    a resumed one finds it.

    Args:
        profiler: what runs kernels.
        template: job of the problem; source and seeds are replaced.
        store: run store, if results are to be kept.
        run: id of the run in it.
        concurrency: evaluations at once.
        most: evaluations in all, those reused by a resumed run included; None for no limit.
    """

    def __init__(
        self,
        profiler: Profiler,
        template: Job,
        *,
        store: RunStore | None = None,
        run: str = "",
        concurrency: int = 2,
        most: int | None = None,
    ) -> None:
        self._profiler = profiler
        self._template = template
        self._store = store
        self._run = run
        self._slots = asyncio.Semaphore(max(1, concurrency))
        self._most = most
        self._known: dict[str, Outcome] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self.started = 0
        self.finished = 0
        self.candidates = 0
        self.reused = 0
        self.on_finished: Callable[[], None] | None = None

    @property
    def exhausted(self) -> bool:
        """The limit on evaluations is reached."""
        return self._most is not None and self.started >= self._most

    async def evaluate(
        self,
        source: str,
        seeds: tuple[int, ...] = (),
        *,
        unlimited: bool = False,
        what_ifs: bool = False,
    ) -> Outcome:
        """Profile ``source``; with seeds, verify its outputs as well.

        Args:
            unlimited: does not fall under the limit on evaluations (final verification).
            what_ifs: also schedule with one thing changed at a time, if it is not known yet.

        Raises:
            OutOfEvaluations: the limit is reached.
        """
        key = evaluation_key(source, seeds)
        async with self._locks.setdefault(key, asyncio.Lock()):
            found = self._known.get(key)
            if found is None:
                if self.exhausted and not unlimited:
                    raise OutOfEvaluations
                self.started += 0 if unlimited else 1
                found = await self._obtain(key, source, seeds, what_ifs)
                self._known[key] = found
                self.finished += 1
                self.candidates += 0 if unlimited else 1
                if self.on_finished is not None:
                    self.on_finished()
            return found

    async def _obtain(
        self, key: str, source: str, seeds: tuple[int, ...], what_ifs: bool
    ) -> Outcome:
        if self._store is not None:
            stored = self._store.evaluation(self._run, key)
            if stored is not None:
                self.reused += 1
                return stored[0]
        async with self._slots:
            begun = time.monotonic()
            job = evolve(self._template, source=source, seeds=seeds, what_ifs=what_ifs)
            try:
                outcome = await self._profiler.profile(job)
            except Exception as error:
                # A profiler that breaks must not take the search with it.
                outcome = Failure(
                    FailureKind.CRASH, f"the profiler failed: {type(error).__name__}: {error}"
                )
            seconds = time.monotonic() - begun
        # A process that died has not finished: a resumed run tries again.
        crashed = isinstance(outcome, Failure) and outcome.kind is FailureKind.CRASH
        if self._store is not None and not crashed:
            self._store.record_evaluation(self._run, key, source, seeds, outcome, seconds)
        return outcome


def evaluation_key(source: str, seeds: tuple[int, ...]) -> str:
    """Names an evaluation within a run."""
    text = dumps([source, list(seeds)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
