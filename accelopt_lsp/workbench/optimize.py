"""Optimize one kernel: search for a faster version, verify it, and report with evidence."""

from __future__ import annotations

import asyncio
import difflib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from accelopt_lsp import __version__
from accelopt_lsp.agents.codec import CodecError, plan_to_json
from accelopt_lsp.agents.database import DatabaseProblem
from accelopt_lsp.agents.evaluate import Evaluator
from accelopt_lsp.agents.gates import Gates
from accelopt_lsp.agents.learning import Lessons, flush_pending
from accelopt_lsp.agents.memory import OptimizationMemory
from accelopt_lsp.agents.normalise import function_text
from accelopt_lsp.agents.offline import offline_roles, tags_of
from accelopt_lsp.agents.roles import Candidate, Experience, Plan, Problem, Roles, Usage
from accelopt_lsp.agents.search import BeamSearch, SearchEvent, SearchResult, SearchSettings
from accelopt_lsp.agents.store import RunRecord, RunStore, UnknownRun, new_run_id
from accelopt_lsp.nki.profile import SCHEMA_VERSION, Profile
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.base import Failure, Job, Profiler
from accelopt_lsp.workbench.profile import failure_json, get_profiler, job_for
from accelopt_lsp.workbench.requests import (
    KernelRequest,
    RequestError,
    ResolvedKernel,
    resolve_kernel,
)

Listener = Callable[[SearchEvent], Any]
UNCERTAIN_BELOW = 1.05
"""Compiler choices that no source shows move latencies by about this much."""


@frozen(slots=True)
class OptimizeRequest:
    """What to optimize, and how.

    Attributes:
        kernel: which kernel, with what.
        search: every choice of the search.
        agents: ``offline``; further implementations come with their own settings.
        backend: what runs attempts.
        read_paths: further folders that kernels may read.
        use_memory: draw on the optimization memory and add to it.
        resume: id of a run to go on with; kernel and settings are then the run's.
        data_dir: folder of run store and memory; None takes the user's.
    """

    kernel: KernelRequest
    search: SearchSettings = SearchSettings()
    agents: str = "offline"
    backend: str = "simulator"
    read_paths: tuple[Path, ...] = ()
    use_memory: bool = True
    resume: str | None = None
    data_dir: Path | None = None


@frozen(slots=True)
class Strategy:
    """One step from the baseline to the result, with its evidence.

    Attributes:
        plan: what was done and why.
        before_ms, after_ms: latency before and after the step.
        experiences: experiences that the plan drew on.
    """

    plan: Plan
    before_ms: float
    after_ms: float
    experiences: tuple[Experience, ...] = ()

    @property
    def speedup(self) -> float:
        return self.before_ms / self.after_ms

    def to_json(self) -> dict[str, Any]:
        return {
            **plan_to_json(self.plan),
            "latency_before_ms": self.before_ms,
            "latency_after_ms": self.after_ms,
            "speedup": self.speedup,
            "experiences": [
                {"id": e.id, "title": e.title, "wins": e.wins, "losses": e.losses}
                for e in self.experiences
            ],
        }


@frozen(slots=True)
class OptimizeReport:
    """What came of it.

    Attributes:
        run: id in the run store; None if there is no store.
        kernel: what was optimized.
        baseline: its profile; None if it could not be run.
        best: profile of the result; the baseline's if nothing better was found.
        new_text: the file with the faster kernel; None if nothing better was found.
        correct: the result's outputs equal the reference's on all seeds; None if unchecked.
        strategies: the steps that led to it.
        evaluations: kernels profiled or verified, those that a resumed run found included.
        usage: calls, tokens and dollars of all roles.
        stopped: why the search ended.
        notes: remarks for people.
        failure: why the baseline could not be run.
    """

    run: str | None
    kernel: ResolvedKernel
    baseline: Profile | None
    best: Profile | None
    new_text: str | None
    correct: bool | None
    strategies: tuple[Strategy, ...] = ()
    evaluations: int = 0
    usage: Usage = Usage()
    stopped: str = ""
    notes: tuple[str, ...] = ()
    failure: Failure | None = field(default=None)

    @property
    def improved(self) -> bool:
        return self.new_text is not None

    @property
    def speedup(self) -> float | None:
        """Latency before over latency after; None if either is unknown."""
        if self.baseline is None or self.best is None:
            return None
        before, after = self.baseline.latency_ms, self.best.latency_ms
        return None if before is None or not after else before / after

    @property
    def diff(self) -> str:
        """Unified diff; empty if nothing changed."""
        if self.new_text is None:
            return ""
        return unified_diff(self.kernel.text, self.new_text, self.kernel.path)

    def to_json(self) -> dict[str, Any]:
        """The object of ``accelopt optimize --json``."""
        if self.failure is not None:
            return {**failure_json(self.failure, self.kernel), "run": self.run}
        return {
            "schema_version": SCHEMA_VERSION,
            "run": self.run,
            "kernel": self.kernel.source.qualname,
            "target": self.kernel.target,
            "baseline": self.baseline.to_json() if self.baseline else None,
            "best": self.best.to_json() if self.best else None,
            "speedup": self.speedup,
            "improved": self.improved,
            "correct": self.correct,
            "diff": self.diff,
            "evaluations": self.evaluations,
            "strategies": [s.to_json() for s in self.strategies],
            "tokens": self.usage.tokens,
            "cost_usd": self.usage.cost_usd,
            "stopped": self.stopped,
            "notes": list(self.notes),
        }


def unified_diff(before: str, after: str, path: Path) -> str:
    """A unified diff that ``patch -p1`` and ``git apply`` take."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"a/{path.name}",
        f"b/{path.name}",
    )
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )


def roles_for(agents: str) -> Roles:
    """Implementations of the four roles by name.

    Raises:
        RequestError: no such implementation.
    """
    if agents == "offline":
        return offline_roles()
    raise RequestError(f"no agents {agents!r} are configured; available: offline")


async def optimize_kernel(
    request: OptimizeRequest,
    progress: Listener | None = None,
    *,
    roles: Roles | None = None,
    profiler: Profiler | None = None,
) -> OptimizeReport:
    """Search for a faster version of a kernel.

    Cancelling the task stops the search and kills its runs; what was evaluated stays in the
    run store, and ``resume`` goes on from there.

    Raises:
        RequestError: the kernel or the run cannot be found, or arguments are missing.
        SettingsError: the project's settings cannot be used.
    """
    notes: list[str] = []
    store = _open_store(request, notes)
    try:
        run, record = _resumed(request, store)
        if record is not None:
            request = _as_recorded(request, record)
        kernel = resolve_kernel(request.kernel)
        session = _Session(
            request,
            kernel,
            roles or roles_for(request.agents),
            profiler or get_profiler(request.backend),
            store,
            run,
            record,
            notes,
            progress,
        )
        return await session.run()
    finally:
        if store is not None:
            store.close()


def _open_store(request: OptimizeRequest, notes: list[str]) -> RunStore | None:
    path = request.data_dir / "runs.sqlite3" if request.data_dir else None
    try:
        store = RunStore(path)
    except DatabaseProblem as problem:
        if request.resume is not None:
            raise RequestError(str(problem)) from problem
        notes.append(f"{problem}; this run is not recorded")
        return None
    notes.extend(store.notes)
    return store


def _resumed(
    request: OptimizeRequest, store: RunStore | None
) -> tuple[str | None, RunRecord | None]:
    if request.resume is None or store is None:
        return None, None
    try:
        record = store.load(request.resume)
    except (UnknownRun, DatabaseProblem) as error:
        raise RequestError(str(error)) from error
    return record.id, record


def _as_recorded(request: OptimizeRequest, record: RunRecord) -> OptimizeRequest:
    """The request with the problem and the settings of the run it resumes."""
    try:
        search = SearchSettings.from_json(record.settings)
    except ValueError as error:
        raise RequestError(f"run {record.id} cannot be resumed: {error}") from error
    budget = request.search.budget_seconds
    kernel = evolve(
        request.kernel,
        path=Path(record.path),
        text=record.text,
        function=record.function,
        arguments=record.arguments.values,
        grid=record.arguments.grid,
        target=record.target,
        reference=Path(record.reference) if record.reference else None,
    )
    return evolve(request, kernel=kernel, search=evolve(search, budget_seconds=budget))


class _Session:
    """One optimization, from the baseline's profile to the report."""

    def __init__(
        self,
        request: OptimizeRequest,
        kernel: ResolvedKernel,
        roles: Roles,
        profiler: Profiler,
        store: RunStore | None,
        run: str | None,
        record: RunRecord | None,
        notes: list[str],
        progress: Listener | None,
    ) -> None:
        self.request = request
        self.kernel = kernel
        self.roles = roles
        self.profiler = profiler
        self.store = store
        self.run_id = run
        self.record = record
        self.notes = notes
        self.progress = progress
        self.memory: OptimizationMemory | None = None

    async def run(self) -> OptimizeReport:
        with tempfile.TemporaryDirectory(prefix="accelopt-") as scratch:
            try:
                report = await self._run(Path(scratch))
            except asyncio.CancelledError:
                self._close("cancelled")
                raise
            except BaseException:
                self._close("failed")
                raise
        self._close("finished" if report.failure is None else "failed", report)
        return report

    def _close(self, status: str, report: OptimizeReport | None = None) -> None:
        if self.memory is not None:
            self.memory.close()
        if self.store is None or self.run_id is None:
            return
        try:
            self.store.finish(self.run_id, status, report.to_json() if report else None)
        except DatabaseProblem as problem:
            self.notes.append(str(problem))

    async def _run(self, scratch: Path) -> OptimizeReport:
        job = self._job(scratch)
        self._begin_record()
        evaluator = Evaluator(
            self.profiler,
            job,
            store=self.store,
            run=self.run_id or "",
            concurrency=self.request.search.concurrency,
            most=self.request.search.max_evaluations,
        )
        # Without a reference the baseline is compared with itself, which shows nothing.
        seeds = self.request.search.verify_seeds if self.kernel.reference else ()
        outcome = await evaluator.evaluate(self.kernel.text, seeds, unlimited=True)
        if isinstance(outcome, Failure):
            return self._report(None, None, evaluator, failure=outcome)
        if outcome.correct is False:
            self.notes.append(
                "the kernel's own outputs differ from the reference; a faster version of it "
                "would be wrong, too"
            )
            return self._report(outcome, None, evaluator)
        if outcome.latency_ms is None:
            unknown = ", ".join(outcome.unknown_instructions)
            self.notes.append(f"no latency is known over instructions of unknown cost: {unknown}")
            return self._report(outcome, None, evaluator)
        if self.kernel.reference is None:
            self.notes.append(
                "no reference was given: outputs were compared with those of the kernel as it was"
            )
        problem = Problem(
            path=self.kernel.path,
            text=self.kernel.text,
            function=self.kernel.source.qualname,
            arguments=self.kernel.arguments,
            target=get_target(self.kernel.target),
            dialect=self.kernel.dialect,
            profile=outcome,
            reference=self.kernel.reference,
        )
        lessons = self._lessons(problem)
        gates = Gates(
            self.kernel.text,
            problem.function,
            problem.arguments,
            problem.target,
            outcome,
            written_bytes=_written_bytes(self.kernel),
            allow_lower_precision=self.request.search.allow_lower_precision,
        )
        search = BeamSearch(
            self.roles, evaluator, gates, self.request.search, lessons, self.progress
        )
        result = await search.run(problem)
        self.notes.extend(result.notes)
        if self.store is not None and self.run_id is not None:
            self.store.set_latencies(self.run_id, outcome.latency_ms, result.best.latency_ms)
        return self._report(outcome, result, evaluator, lessons.initial)

    def _job(self, scratch: Path) -> Job:
        job = job_for(self.kernel)
        return evolve(
            job,
            baseline=None if self.kernel.reference else self.kernel.text,
            cache=scratch / "expected",
            read_paths=(*job.read_paths, *self.request.read_paths),
        )

    def _begin_record(self) -> None:
        if self.store is None or self.run_id is not None:
            if self.store is not None and self.run_id is not None:
                self.store.finish(self.run_id, "running")
            return
        now = time.time()
        self.run_id = self.store.begin(
            RunRecord(
                id=new_run_id(),
                created=now,
                updated=now,
                status="running",
                path=str(self.kernel.path),
                function=self.kernel.source.qualname,
                target=self.kernel.target,
                dialect=self.kernel.dialect.value,
                text=self.kernel.text,
                arguments=self.kernel.arguments,
                reference=str(self.kernel.reference) if self.kernel.reference else None,
                settings=self.request.search.to_json(),
                roles=self.roles.names,
                version=__version__,
            )
        )

    def _lessons(self, problem: Problem) -> Lessons:
        settings = self.request.search
        if not self.request.use_memory or settings.memory_policy == "none":
            return Lessons(None, self.store, self.run_id or "")
        path = self.request.data_dir / "memory.sqlite3" if self.request.data_dir else None
        initial: Sequence[Experience] = ()
        try:
            self.memory = OptimizationMemory(path)
            self.notes.extend(self.memory.notes)
            if self.store is not None:
                flush_pending(self.memory, self.store, self.notes.append)
            initial = self._initial(problem, self.memory)
        except (DatabaseProblem, CodecError) as error:
            self.notes.append(f"{error}; this run goes on without what earlier ones learned")
        return Lessons(self.memory, self.store, self.run_id or "", initial)

    def _initial(self, problem: Problem, memory: OptimizationMemory) -> Sequence[Experience]:
        """Experiences at the start; a resumed run takes those it started with."""
        settings = self.request.search
        if self.record is not None and self.record.initial is not None:
            return self.record.initial
        if settings.memory_policy == "queue":
            found = memory.queue(settings.exp_n)
        else:
            found = memory.retrieve(
                tags_of(problem, problem.text, problem.profile),
                settings.exp_n,
                function_text(problem.text, problem.function),
                failure_share=settings.failure_share,
            )
        if self.store is not None and self.run_id is not None:
            self.store.set_initial(self.run_id, found)
        return found

    def _report(
        self,
        baseline: Profile | None,
        result: SearchResult | None,
        evaluator: Evaluator,
        initial: Sequence[Experience] = (),
        failure: Failure | None = None,
    ) -> OptimizeReport:
        best, new_text, strategies = baseline, None, ()
        correct = baseline.correct if baseline else None
        if result is not None and result.verified:
            best, new_text, correct = result.best.profile, result.best.source, True
            strategies = _strategies(result, initial)
            gained = self._gained(baseline, best)
            if gained is not None and gained < UNCERTAIN_BELOW:
                self.notes.append(
                    f"a gain of {100 * (gained - 1):.1f} % is within what the simulator cannot "
                    "tell apart"
                )
        return OptimizeReport(
            run=self.run_id,
            kernel=self.kernel,
            baseline=baseline,
            best=best,
            new_text=new_text,
            correct=correct,
            strategies=strategies,
            evaluations=evaluator.finished,
            usage=self.roles.usage,
            stopped=result.stopped if result else "",
            notes=tuple(dict.fromkeys(self.notes)),
            failure=failure,
        )

    @staticmethod
    def _gained(baseline: Profile | None, best: Profile) -> float | None:
        if baseline is None or baseline.latency_ms is None or not best.latency_ms:
            return None
        return baseline.latency_ms / best.latency_ms


def _strategies(result: SearchResult, initial: Sequence[Experience]) -> tuple[Strategy, ...]:
    known = {e.id: e for e in initial}
    made = {a.id: a for a in result.attempts}
    steps: list[Strategy] = []
    candidate: Candidate | None = result.best
    after = result.best.latency_ms
    while candidate is not None and candidate.plan is not None:
        attempt = made[candidate.id]
        before = attempt.parent.latency_ms
        drawn = tuple(known[e] for e in candidate.plan.experiences if e in known)
        steps.append(Strategy(evolve(candidate.plan, site=None), before, after, drawn))
        candidate, after = attempt.parent, before
    return tuple(reversed(steps))


def _written_bytes(kernel: ResolvedKernel) -> int | None:
    """Bytes of all outputs by static analysis, where it knows them."""
    from accelopt_lsp.analysis import AnalysisOptions, analyze

    options = AnalysisOptions(target=kernel.target, overrides=kernel.arguments.values)
    for found in analyze(_document(kernel), path=kernel.path, options=options).kernels:
        if found.source.qualname == kernel.source.qualname:
            work = found.workload
            return None if work is None else work.compulsory_write_bytes
    return None


def _document(kernel: ResolvedKernel) -> Any:
    from accelopt_lsp.analysis.syntax import Document

    return Document.parse(kernel.text)


# -- a text that changed meanwhile -----------------------------------------------------


def stale(report: OptimizeReport, current_text: str) -> bool:
    """Whether the file changed since the run began, so that the result needs a re-check."""
    return current_text != report.kernel.text


def refit(report: OptimizeReport, current_text: str) -> str | None:
    """The result carried over to a text that changed outside the kernel.

    None if the kernel itself changed, if the result changes other parts of the file as well,
    or if there is no result. What comes out is not verified; see :func:`recheck`.
    """
    if report.new_text is None:
        return None
    if not stale(report, current_text):
        return report.new_text
    name = report.kernel.source.qualname
    old, new = (function_text(t, name) for t in (report.kernel.text, report.new_text))
    if report.kernel.text.count(old) != 1 or current_text.count(old) != 1:
        return None
    if report.kernel.text.replace(old, new) != report.new_text:
        return None
    return current_text.replace(old, new)


async def recheck(
    report: OptimizeReport,
    current_text: str,
    *,
    profiler: Profiler | None = None,
    backend: str = "simulator",
) -> OptimizeReport | None:
    """The result for the current text, verified again; None if it no longer holds.

    Both versions are profiled anew where the text changed, since a constant outside the kernel
    may have changed with it.
    """
    if not stale(report, current_text):
        return report
    text = refit(report, current_text)
    if text is None:
        return None
    chosen = profiler or get_profiler(backend)
    request = KernelRequest(
        path=report.kernel.path,
        text=current_text,
        function=report.kernel.source.qualname,
        arguments=_given(report.kernel),
        target=report.kernel.target,
        reference=report.kernel.reference,
        grid=report.kernel.arguments.grid,
        settings=report.kernel.settings,
    )
    kernel = resolve_kernel(request)
    job = job_for(kernel)
    before = await chosen.profile(job)
    after = await chosen.profile(
        evolve(job, source=text, seeds=(0,), baseline=None if kernel.reference else current_text)
    )
    if not isinstance(before, Profile) or not isinstance(after, Profile):
        return None
    if after.correct is not True or before.latency_ms is None or after.latency_ms is None:
        return None
    if after.latency_ms >= before.latency_ms:
        return None
    note = "the file changed during the run; the result was verified again on one seed"
    return evolve(
        report,
        kernel=kernel,
        baseline=before,
        best=after,
        new_text=text,
        notes=(*report.notes, note),
    )


def _given(kernel: ResolvedKernel) -> Mapping[str, Any]:
    """Arguments that callers gave, which win over what the text says."""
    origins = kernel.arguments.origins
    return {
        name: spec
        for name, spec in kernel.arguments.values.items()
        if origins.get(name, "").startswith(("--arg", "caller", "override"))
    }


__all__ = [
    "OptimizeReport",
    "OptimizeRequest",
    "Strategy",
    "optimize_kernel",
    "recheck",
    "refit",
    "stale",
]
