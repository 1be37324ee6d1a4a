"""The simulator as a profiler: a job becomes a profile, its seeds are verified side by side."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.base import Failure, FailureKind, Job, Outcome, Progress
from accelopt_lsp.profiler.cache import ResultCache, cacheable
from accelopt_lsp.profiler.simulator.client import GRACE_SECONDS, JobFailed, JobRun
from accelopt_lsp.profiler.simulator.variants import Variant, VariantProfile, varied_target
from accelopt_lsp.profiler.yardsticks import by_known_problem


class SimulatorProfiler:
    """Profiles kernels on the simulator, each job in child processes of its own.

    Args:
        lanes: how many seeds of a job are verified at once, each share of them by a kernel
            process and a judge of its own; None for as many as there are cores.
        results: cache of results; None runs every job.
    """

    name = "simulator"

    def __init__(self, lanes: int | None = None, results: ResultCache | None = None) -> None:
        self._results = results
        self._lanes = max(1, usable_cores() if lanes is None else lanes)

    async def profile(self, job: Job, progress: Progress | None = None) -> Outcome:
        """Run a job. Never raises on account of the kernel; cancelling kills its processes."""
        results = self._results if cacheable(job) else None
        known = None if results is None else results.find(job)
        if known is not None:
            return by_known_problem(known, job)
        started = time.time()
        found, reads = await self._run(job, progress)
        # Which of several seeds is found wrong first depends on the machine.
        if results is not None and isinstance(found, Profile) and found.correct is not False:
            results.store(job, found, reads, started)
        return by_known_problem(found, job) if isinstance(found, Profile) else found

    async def _run(self, job: Job, progress: Progress | None) -> tuple[Outcome, set[str]]:
        lanes = max(1, min(self._lanes, len(job.seeds)))
        found, reads = await self._profile(job, progress, lanes)
        if lanes > 1 and isinstance(found, Failure) and found.kind is FailureKind.MEMORY:
            # Several runs at once may need more than there is.
            found, reads = await self._profile(job, progress, 1)
        return found, reads

    async def vary(
        self, job: Job, variants: Sequence[Variant], progress: Progress | None = None
    ) -> tuple[VariantProfile, ...] | Failure:
        """Trace a kernel once and schedule it once for each variant, in order.

        Raises:
            VariantError: an override is none that the simulator accepts.
        """
        target = get_target(job.target)
        for variant in variants:
            varied_target(target, variant)
        job = evolve(job, seeds=(), timeline=None)
        found = await _run(job, progress, 0, profiled=False, variants=tuple(variants))
        return found if isinstance(found, Failure) else tuple(found.variants_found)

    async def _profile(
        self, job: Job, progress: Progress | None, lanes: int
    ) -> tuple[Outcome, set[str]]:
        """The outcome, and the files that it depends on."""
        shared = _SharedProgress(progress, lanes)
        first, *others = [
            asyncio.create_task(_run(evolve(job, seeds=job.seeds[n::lanes]), shared.of(n), n))
            for n in range(lanes)
        ]
        try:
            for finished in asyncio.as_completed([first, *others]):
                found = await finished
                if isinstance(found, Failure):
                    return found, set()
                if any(not v["correct"] for v in found.verdicts.values()):
                    # One wrong output decides; only the profile is still wanted.
                    for task in others:
                        task.cancel()
                    break
            profiled = await first
            if isinstance(profiled, Failure):
                return profiled, set()
            verdicts = dict(profiled.verdicts)
            reads = profiled.reads
            for task in others:
                if task.done() and not task.cancelled():
                    found = task.result()
                    if isinstance(found, Failure):
                        return found, set()
                    verdicts.update(found.verdicts)
                    reads |= found.reads
            assert profiled.profile_found is not None
            return _judged(profiled.profile_found, job, verdicts), reads
        finally:
            for task in (first, *others):
                task.cancel()
            # Also an impatient caller leaves no process: each task kills its own at once.
            await asyncio.gather(first, *others, return_exceptions=True)


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _SharedProgress:
    """Progress of several lanes as that of one job."""

    def __init__(self, progress: Progress | None, lanes: int) -> None:
        self._progress = progress
        self._shares = [0.0] * lanes

    def of(self, lane: int) -> Progress | None:
        """What one lane reports to."""
        progress = self._progress
        if progress is None:
            return None

        def report(message: str, share: float | None) -> None:
            self._shares[lane] = share or self._shares[lane]
            done = sum(self._shares) / len(self._shares)
            progress(message, done or None)

        return report


async def _run(
    job: Job,
    progress: Progress | None,
    lane: int,
    *,
    profiled: bool = True,
    variants: tuple[Variant, ...] = (),
) -> JobRun | Failure:
    """Run the share of a job that falls to one lane; the first one makes the profile, too."""
    if lane:
        job = evolve(job, timeline=None)
    scratch = Path(tempfile.mkdtemp(prefix="accelopt-"))
    run = JobRun(job, scratch, progress, profiled=profiled and not lane, variants=variants)
    try:
        limit = job.limits.seconds * (2 if job.seeds else 1) + GRACE_SECONDS
        async with asyncio.timeout(limit + 30):
            await run.run()
        return run
    except JobFailed as failed:
        return failed.failure
    except TimeoutError:
        return run.timed_out()
    finally:
        # Killing waits for nothing, so that even an impatient caller leaves no process.
        for child in run.children:
            child.kill_now()
        try:
            await asyncio.shield(run.close())
        except asyncio.CancelledError:
            shutil.rmtree(scratch, ignore_errors=True)
            raise


def _judged(profile: Profile, job: Job, verdicts: Mapping[int, Mapping[str, Any]]) -> Profile:
    """The profile with the outcome of the verification."""
    if not verdicts:
        return profile
    wrong = next((s for s in job.seeds if s in verdicts and not verdicts[s]["correct"]), None)
    errors = [v["error"] for v in verdicts.values()]
    notes = profile.notes
    if wrong is not None:
        scaling = next((f" ({r})" for r in job.rescaled if r.seed == wrong), "")
        notes = (f"seed {wrong}{scaling}: {verdicts[wrong]['message']}", *notes)
    return evolve(
        profile,
        correct=wrong is None,
        max_relative_error=None if None in errors else max(errors),
        reference="file" if job.reference is not None else "baseline",
        notes=notes,
    )
