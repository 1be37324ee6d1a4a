"""Optimize one kernel: search for a faster version, verify it, and report with evidence."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve

from accelopt_lsp import __version__
from accelopt_lsp.agents.database import DatabaseProblem
from accelopt_lsp.agents.evaluate import Evaluator
from accelopt_lsp.agents.focus import focused
from accelopt_lsp.agents.gates import Gates
from accelopt_lsp.agents.honesty import uses
from accelopt_lsp.agents.learning import Lessons, flush_pending
from accelopt_lsp.agents.memory import OptimizationMemory
from accelopt_lsp.agents.normalise import function_text
from accelopt_lsp.agents.offline import offline_roles
from accelopt_lsp.agents.roles import Candidate, Experience, Problem, Roles
from accelopt_lsp.agents.run_records import RunRecord, UnknownRun, new_run_id
from accelopt_lsp.agents.scales import other_scales, usable
from accelopt_lsp.agents.search import BeamSearch, SearchEvent, SearchResult, SearchSettings
from accelopt_lsp.agents.situations import tags_of
from accelopt_lsp.agents.store import RunStore
from accelopt_lsp.agents.team import read_team
from accelopt_lsp.analysis.files import analyze_kernel
from accelopt_lsp.analysis.results import AnalysisOptions
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.base import Failure, Job, Profiler, Rescaling
from accelopt_lsp.workbench.models import models_for, recorder_for, static_screen
from accelopt_lsp.workbench.optimization import OptimizeReport, OptimizeRequest, Strategy
from accelopt_lsp.workbench.profile import get_profiler, job_for
from accelopt_lsp.workbench.recheck import recheck, refit, stale
from accelopt_lsp.workbench.requests import RequestError, ResolvedKernel, resolve_kernel

if TYPE_CHECKING:
    from accelopt_lsp.agents.llm.client import ChatModels

__all__ = [
    "OptimizeReport",
    "OptimizeRequest",
    "Strategy",
    "optimize_kernel",
    "recheck",
    "refit",
    "stale",
]

Listener = Callable[[SearchEvent], Any]
UNCERTAIN_BELOW = 1.05
"""Compiler choices that no source shows move latencies by about this much."""


AGENTS = ("offline", "llm")
TELL_SECONDS = 0.5
"""A reply that grows is shown this often."""


async def optimize_kernel(
    request: OptimizeRequest,
    progress: Listener | None = None,
    *,
    improved: Callable[[OptimizeReport], Any] | None = None,
    roles: Roles | None = None,
    profiler: Profiler | None = None,
) -> OptimizeReport:
    """Search for a faster version of a kernel.

    ``improved`` is given the report of the fastest version so far each time that there is a new
    one. Its outputs were compared on the seeds for candidates only: :func:`recheck` does the
    rest.

    Cancelling the task stops the search and kills its runs; what was evaluated stays in the
    run store, and ``resume`` goes on from there.

    Raises:
        RequestError: the kernel or the run cannot be found, or arguments are missing.
        SettingsError: the project's settings cannot be used.
    """
    if request.agents not in AGENTS:
        raise RequestError(f"no agents {request.agents!r}; available: {', '.join(AGENTS)}")
    notes: list[str] = []
    store = _open_store(request, notes)
    models: ChatModels | None = None
    try:
        run, record = _resumed(request, store)
        if record is not None:
            request = _as_recorded(request, record)
        kernel = resolve_kernel(request.kernel)
        if record is None:
            policy = request.memory_policy or kernel.settings.memory_policy
            chosen = policy or request.search.memory_policy
            request = evolve(request, search=evolve(request.search, memory_policy=chosen))
        _check_lines(request.search, kernel)
        session = _Session(
            request,
            kernel,
            profiler or get_profiler(request.backend, use_cache=request.use_cache),
            store,
            run if request.replay is None else None,
            record,
            notes,
            progress,
            improved,
        )
        if roles is None and request.agents == "llm":
            from accelopt_lsp.agents.llm.agents import llm_roles

            recorder = recorder_for(store, lambda: session.run_id, request.replay, notes.append)
            models = models_for(
                kernel.path, request.llm, recorder, notes.append, session.tell_of_reply
            )
            roles = llm_roles(models)
        return await session.run(roles or offline_roles())
    finally:
        if models is not None:
            await models.close()
        if store is not None:
            store.close()


def _open_store(request: OptimizeRequest, notes: list[str]) -> RunStore | None:
    path = request.data_dir / "runs.sqlite3" if request.data_dir else None
    try:
        store = RunStore(path)
    except DatabaseProblem as problem:
        if request.resume is not None or request.replay is not None:
            raise RequestError(str(problem)) from problem
        notes.append(f"{problem}; this run is not recorded")
        return None
    return store


def _resumed(
    request: OptimizeRequest, store: RunStore | None
) -> tuple[str | None, RunRecord | None]:
    """The recorded run that is resumed or replayed, and its id."""
    name = request.resume if request.resume is not None else request.replay
    if name is None or store is None:
        return None, None
    try:
        record = store.load(name)
    except (UnknownRun, DatabaseProblem) as error:
        raise RequestError(str(error)) from error
    if request.resume is not None and record.at_work_elsewhere:
        raise RequestError(f"run {record.id} is still going on in another process")
    asked, recorded = request.kernel, f"{record.path}::{record.function}"
    named = (None, record.function, record.function.rpartition(".")[2])
    if asked.path.resolve() != Path(record.path).resolve() or asked.function not in named:
        raise RequestError(f"run {record.id} is about {recorded}; name that kernel")
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
    agents = "llm" if any(n != "offline" for n in record.roles.values()) else "offline"
    return evolve(
        request,
        kernel=kernel,
        search=evolve(search, budget_seconds=budget),
        agents=agents,
        llm={**_models_of(record), **_given(request.llm)},
        replay=record.id if request.replay is not None else None,
        use_memory=request.use_memory and bool(record.settings.get("use_memory", True)),
    )


def _models_of(record: RunRecord) -> dict[str, Any]:
    """Models of a recorded run by role, since a recorded reply answers to the model's name.

    The endpoint that was named for it, too: what it was not named for must not see the kernel.
    """
    models: dict[str, Any] = {f"{role}_model": name for role, name in record.roles.items()}
    url = record.settings.get("base_url")
    return {**models, "base_url": url} if isinstance(url, str) else models


def _named_endpoint(request: OptimizeRequest) -> dict[str, str]:
    """The endpoint that the request names, as a run keeps it: not one with a query, which may hold
    a key."""
    url = request.llm.get("base_url")
    return {"base_url": url} if isinstance(url, str) and "?" not in url else {}


def _check_lines(search: SearchSettings, kernel: ResolvedKernel) -> None:
    if search.lines is None:
        return
    first, last = search.lines
    start, end = kernel.source.first_line, kernel.source.end_line
    if not start <= first <= last <= end:
        raise RequestError(
            f"lines {first}-{last} are not in kernel {kernel.source.qualname} (lines {start}-{end})"
        )


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


class _Session:
    """One optimization, from the baseline's profile to the report."""

    def __init__(
        self,
        request: OptimizeRequest,
        kernel: ResolvedKernel,
        profiler: Profiler,
        store: RunStore | None,
        run: str | None,
        record: RunRecord | None,
        notes: list[str],
        progress: Listener | None,
        improved: Callable[[OptimizeReport], Any] | None = None,
    ) -> None:
        self.request = request
        self.kernel = kernel
        self.profiler = profiler
        self.store = store
        self.run_id = run
        self.record = record
        self.notes = notes
        self.progress = progress
        self.improved = improved
        self.memory: OptimizationMemory | None = None
        self.search: BeamSearch | None = None
        self._told = 0.0

    async def run(self, roles: Roles) -> OptimizeReport:
        self.roles = roles
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
        self.store.finish(self.run_id, status, report.to_json() if report else None)

    async def _run(self, scratch: Path) -> OptimizeReport:
        scales = other_scales(self.request.search, self.kernel.text)
        job = self._job(scratch, scales)
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
        outcome = await evaluator.evaluate(self.kernel.text, seeds, unlimited=True, what_ifs=True)
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
        if self.store is not None and self.run_id is not None:
            self.store.set_latencies(self.run_id, outcome.latency_ms, None)
        if self.kernel.reference is None:
            self.notes.append(
                "no reference was given: outputs were compared with those of the kernel as it was"
            )
        others, remarks = await usable(
            evaluator, self.kernel.text, scales, outcome.max_relative_error
        )
        self.notes.extend(remarks)
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
        problem = evolve(problem, floor_ms=gates.floor(outcome).attainable_ms)
        self.search = search = BeamSearch(
            focused(self.roles, self.kernel.text, self.request.search.lines),
            evaluator,
            gates,
            self.request.search,
            lessons,
            self._listener(outcome, evaluator, job, others),
            static_screen(self.kernel),
            others,
        )
        result = await search.run(problem)
        if result.role_failure is not None and not result.attempts:
            raise RequestError(str(result.role_failure)) from result.role_failure
        self.notes.extend(result.notes)
        if result.role_failure is not None:
            self.notes.append(f"the search ended early: {result.role_failure}")
        if self.store is not None and self.run_id is not None:
            self.store.set_latencies(self.run_id, outcome.latency_ms, result.best.latency_ms)
        return self._report(outcome, result, evaluator, lessons.initial)

    def tell_of_reply(self, role: str, chars: int) -> None:
        """Show that a model is at work: its replies take long."""
        now = time.monotonic()
        if self.search is not None and now - self._told >= TELL_SECONDS:
            self._told = now
            self.search.tell(f"the {role} writes, {chars:,} characters so far")

    def _listener(
        self, baseline: Profile, evaluator: Evaluator, job: Job, other_seeds: Sequence[int]
    ) -> Listener:
        seeds = (*self.request.search.final_seeds, *other_seeds)
        told: Candidate | None = None

        def listen(event: SearchEvent) -> None:
            nonlocal told
            if self.progress is not None:
                self.progress(evolve(event, run=self.run_id))
            best = event.verified
            if self.improved is None or best is None or best is told:
                return
            told = best
            report = self._report(baseline, None, evaluator)
            self.improved(
                evolve(
                    report,
                    best=best.profile,
                    new_text=best.source,
                    correct=True,
                    seeds=seeds,
                    rescaled=job.rescaled,
                )
            )

        return listen

    def _job(self, scratch: Path, scales: Sequence[Sequence[Rescaling]]) -> Job:
        job = job_for(self.kernel)
        return evolve(
            job,
            baseline=None if self.kernel.reference else self.kernel.text,
            cache=scratch / "expected",
            rescaled=tuple(rescaling for scale in scales for rescaling in scale),
            read_paths=(*job.read_paths, *self.request.read_paths),
            hidden=self._hidden(),
        )

    def _hidden(self) -> tuple[Path, ...]:
        """The reference, unless it is the kernel's own file or the kernel imports it."""
        reference = self.kernel.reference
        if reference is None or reference.resolve() == self.kernel.path.resolve():
            return ()
        imported = any(use.what.endswith(reference.stem) for use in uses(self.kernel.text))
        return () if imported else (reference,)

    def _begin_record(self) -> None:
        """Have the run in the store; what cannot be stored runs all the same."""
        if self.store is None:
            return
        if self.run_id is not None:
            self.store.reopen(self.run_id)
            return
        now = time.time()
        record = RunRecord(
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
            settings={
                **self.request.search.to_json(),
                "use_memory": self.request.use_memory,
                **_named_endpoint(self.request),
            },
            roles=self.roles.names,
            version=__version__,
        )
        try:
            self.run_id = self.store.begin(record)
        except DatabaseProblem as problem:
            self.notes.append(f"{problem}; this run is not recorded")
            self.store = None

    def _lessons(self, problem: Problem) -> Lessons:
        settings = self.request.search
        run = self.run_id or ""
        if not self.request.use_memory or settings.memory_policy == "none":
            return Lessons(None, self.store, run, remember=False)
        recorded = self.record.initial if self.record is not None else None
        if self.request.replay is not None:
            # What the recorded run learned is in the memory already.
            return Lessons(None, self.store, run, recorded or (), remember=False)
        path = self.request.data_dir / "memory.sqlite3" if self.request.data_dir else None
        initial: Sequence[Experience] = recorded or ()
        try:
            self.memory = OptimizationMemory(path)
            if self.store is not None:
                flush_pending(self.memory, self.store, self.notes.append)
            if recorded is None:
                initial = self._initial(problem, self.memory)
        except DatabaseProblem as error:
            self.notes.append(f"{error}; this run goes on without what earlier ones learned")
        return Lessons(self.memory, self.store, run, initial)

    def _initial(self, problem: Problem, memory: OptimizationMemory) -> Sequence[Experience]:
        """Experiences that fit the kernel, kept for the case that the run is resumed."""
        settings = self.request.search
        if settings.memory_policy == "queue":
            found = memory.queue(settings.exp_n)
        else:
            found = memory.retrieve(
                tags_of(problem, problem.text, problem.profile),
                settings.exp_n,
                function_text(problem.text, problem.function),
                failure_share=settings.failure_share,
                beside=self._team(),
            )
        if self.store is not None and self.run_id is not None:
            self.store.set_initial(self.run_id, found)
        return found

    def _team(self) -> Sequence[Experience]:
        """Experiences that the kernel's project keeps for its team."""
        path = self.kernel.settings.team_memory
        if path is None:
            return ()
        found, notes = read_team(Path(path))
        self.notes.extend(notes)
        return found

    def _report(
        self,
        baseline: Profile | None,
        result: SearchResult | None,
        evaluator: Evaluator,
        initial: Sequence[Experience] = (),
        failure: Failure | None = None,
    ) -> OptimizeReport:
        best, new_text = baseline, None
        strategies: tuple[Strategy, ...] = ()
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
            notes=self._all_notes(),
            failure=failure,
        )

    def _all_notes(self) -> tuple[str, ...]:
        """Remarks of the run, and of the databases that it uses."""
        opened = [d for d in (self.store, self.memory) if d is not None]
        return tuple(dict.fromkeys([*self.notes, *(note for d in opened for note in d.notes)]))

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
    document = Document.parse(kernel.text)
    options = AnalysisOptions(target=kernel.target, overrides=kernel.arguments.values)
    found = analyze_kernel(document, kernel.source, path=kernel.path, options=options)
    work = found.workload
    return work.compulsory_write_bytes if work is not None and work.complete else None
