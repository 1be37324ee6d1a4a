"""The child that does one long job: ``python -m accelopt_lsp.server.job_process``.

It runs a use case of the workbench in an event loop of its own, so that the server's stays
free. Kernels run in children of this one. When the server asks, or goes away, the use case is
cancelled, which ends those.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from attrs import evolve

from accelopt_lsp.server.channel import Message, Pipe
from accelopt_lsp.server.processes import kill_descendants
from accelopt_lsp.server.snapshot import CheckedFile, Outcome, Problem, Request

if TYPE_CHECKING:
    from accelopt_lsp.agents.search import SearchEvent
    from accelopt_lsp.nki.profile import Profile
    from accelopt_lsp.profiler.base import Failure
    from accelopt_lsp.workbench.optimization import OptimizeReport
    from accelopt_lsp.workbench.requests import KernelRequest

DEAF_SECONDS = 3.0
"""Time that a cancelled use case has to end, where nobody is left to kill this process."""


class Report:
    """How a use case tells the server what it is at."""

    def __init__(self, pipe: Pipe, gone: Callable[[], None]) -> None:
        self._pipe = pipe
        self._gone = gone

    def __call__(self, text: str, share: float | None = None) -> None:
        """Say what is being done, and which share of the work is done."""
        self._write("progress", text, share)

    def keep(self, outcome: Outcome) -> None:
        """Hand over what there is to show for it, should the job be cancelled."""
        self._write("kept", outcome)

    def _write(self, *message: Any) -> None:
        try:
            self._pipe.write(*message)
        except BrokenPipeError:
            self._gone()


UseCase = Callable[[Request, Report], Awaitable[Any]]


def run(use_cases: Mapping[str, UseCase], pipe: Pipe | None = None) -> None:
    """Do the one job that the server sends, and end."""
    pipe = pipe or Pipe.of_this_process()
    message = pipe.read()
    if message is not None:
        asyncio.run(_run(use_cases, pipe, message))
    _end()


def _end() -> NoReturn:
    """End at once: neither children nor threads that a use case has left outlive the job."""
    kill_descendants(os.getpid())
    os._exit(0)


async def _run(use_cases: Mapping[str, UseCase], pipe: Pipe, message: Message) -> None:
    operation, request = message
    loop = asyncio.get_running_loop()

    def gone() -> None:
        task.cancel()

    report = Report(pipe, gone)
    task = asyncio.ensure_future(use_cases[operation](request, report))

    def watch() -> None:
        pipe.read()  # "cancel", or the server has gone
        with contextlib.suppress(RuntimeError):  # the job is over already
            loop.call_soon_threadsafe(task.cancel)
        time.sleep(DEAF_SECONDS)
        _end()

    threading.Thread(target=watch, daemon=True).start()
    answer: tuple[Any, ...]
    try:
        answer = ("result", await task)
    except asyncio.CancelledError:
        _end()  # without waiting for threads, as the loop would
    except Exception as error:
        answer = ("error", f"{type(error).__name__}: {error}", traceback.format_exc())
    with contextlib.suppress(BrokenPipeError):
        pipe.write(*answer)


def _kernel_request(request: Request) -> KernelRequest:
    from accelopt_lsp.workbench.requests import KernelRequest
    from accelopt_lsp.workbench.settings import settings_for

    path = Path(request.path)
    settings = settings_for(path, request.settings)
    return KernelRequest(path, request.text, request.function, settings=settings)


def _problem(failure: Failure) -> Problem:
    return Problem(failure.message, failure.line, failure.column, failure.code)


async def _reporting(request: Request, work: Awaitable[Outcome]) -> Outcome:
    """Errors of the request are outcomes, too: the user is told what to do about them."""
    from accelopt_lsp.workbench.requests import RequestError
    from accelopt_lsp.workbench.settings import SettingsError

    try:
        return await work
    except (RequestError, SettingsError) as error:
        return Outcome(request.function or "", problem=Problem(str(error)))


async def profile(request: Request, report: Report) -> Outcome:
    """Simulate a kernel and verify it."""
    return await _reporting(request, _profile(request, report))


async def _profile(request: Request, report: Report) -> Outcome:
    from accelopt_lsp.workbench.profile import ProfileRequest, profile_kernel

    found = await profile_kernel(ProfileRequest(_kernel_request(request), what_ifs=True), report)
    name = found.kernel.source.qualname
    if found.failure is not None:
        return Outcome(name, problem=_problem(found.failure))
    correct = None if found.profile is None else found.profile.correct
    problem = Problem(wrong_output(name, found.profile)) if correct is False else None
    return Outcome(name, profile=found.profile, correct=correct, problem=problem)


async def timeline(request: Request, report: Report) -> Outcome:
    """Simulate a kernel without verifying it, and write its timeline."""
    return await _reporting(request, _timeline(request, report))


async def _timeline(request: Request, report: Report) -> Outcome:
    from accelopt_lsp.workbench.profile import ProfileRequest, profile_kernel

    file = Path(request.details["timeline"])
    asked = ProfileRequest(_kernel_request(request), verify=False, timeline=file)
    found = await profile_kernel(asked, report)
    name = found.kernel.source.qualname
    if found.failure is not None:
        return Outcome(name, problem=_problem(found.failure))
    return Outcome(name, profile=found.profile)


async def check(request: Request, report: Report) -> tuple[CheckedFile, ...]:
    """What ``check`` finds in a folder; its cache serves both. One process is enough for it."""
    from accelopt_lsp.nki.diagnostics import Diagnostic
    from accelopt_lsp.workbench.check import check_paths
    from accelopt_lsp.workbench.check_cache import CheckCache, cache_dir
    from accelopt_lsp.workbench.requests import read_source

    found = await asyncio.to_thread(
        check_paths, [Path(request.path)], cache=CheckCache(cache_dir()), jobs=1
    )
    by_path: dict[str, list[Diagnostic]] = {}
    for one in found.diagnostics:
        by_path.setdefault(one.path, []).append(one.diagnostic)
    return tuple(
        CheckedFile(path, read_source(Path(path)), tuple(diagnostics))
        for path, diagnostics in by_path.items()
    )


async def trace(request: Request, report: Report) -> Outcome:
    """Trace a kernel on shapes, so that the next analysis of its text knows what it did."""
    return await _reporting(request, _trace(request))


async def _trace(request: Request) -> Outcome:
    from accelopt_lsp.workbench.filling import traced

    kernel = _kernel_request(request)
    found = await traced(kernel.path, request.text, request.function or "", kernel.settings)
    name = found.kernel.source.qualname
    if found.failure is not None:
        return Outcome(name, problem=_problem(found.failure))
    return Outcome(name, profile=found.profile)


def wrong_output(kernel: str, profile: Profile | None) -> str:
    """What to say of a kernel whose outputs differ from its reference's."""
    error = profile.max_relative_error if profile is not None else None
    figure = f" (relative L2 error {error:.3g})" if error is not None else ""
    notes = "".join(f"; {note}" for note in profile.notes) if profile is not None else ""
    return f"{kernel}: outputs differ from the reference's{figure}{notes}"


async def recheck(request: Request, report: Report) -> Outcome:
    """Carry an optimization's result over to the current text, and verify it again there."""
    return await _reporting(request, _recheck(request, report))


async def _recheck(request: Request, report: Report) -> Outcome:
    from accelopt_lsp.workbench.recheck import recheck

    earlier: OptimizeReport = pickle.loads(request.details["report"])
    report("verifying", None)
    found = await recheck(earlier, request.text)
    if found is None:
        return Outcome(request.function or "")
    return _optimized(found)


async def optimize(request: Request, report: Report) -> Outcome:
    """Look for a faster version of a kernel."""
    return await _reporting(request, _optimize(request, report))


async def _optimize(request: Request, report: Report) -> Outcome:
    from accelopt_lsp.workbench.optimize import OptimizeRequest, optimize_kernel
    from accelopt_lsp.workbench.searching import search_settings

    def listen(event: SearchEvent) -> None:
        report(_progress_line(event), event.fraction)

    def improved(best: OptimizeReport) -> None:
        report.keep(evolve(_optimized(best), unfinished=True))

    details = request.details
    budget = details.get("budget_seconds")
    search = evolve(search_settings(Path(request.path), {}), lines=details.get("lines"))
    if budget is not None:
        search = evolve(search, budget_seconds=budget)
    report("running the kernel as it is", None)
    wanted = OptimizeRequest(
        _kernel_request(request),
        search,
        agents=details.get("agents", "offline"),
        llm=details.get("llm", {}),
    )
    return _optimized(await optimize_kernel(wanted, listen, improved=improved))


def _progress_line(event: SearchEvent) -> str:
    """Candidates, best so far, what models cost if there are any, and what is being tried."""
    tried = f"{event.candidates} candidate{'s' * (event.candidates != 1)}"
    spent = f", {event.usage.words()}" if event.usage.calls else ""
    return f"{tried}, best {event.speedup:.2f}x{spent}: {event.message}"


def _optimized(found: OptimizeReport) -> Outcome:
    name = found.kernel.source.qualname
    problem = None
    if found.failure is not None:
        problem = _problem(found.failure)
    elif found.baseline is not None and found.baseline.correct is False:
        problem = Problem(wrong_output(name, found.baseline))
    elif found.baseline is not None and found.baseline.latency_ms is None:
        problem = Problem("; ".join(found.notes))
    notes = found.notes
    if found.usage.calls:
        notes = (*notes, f"models: {found.usage.words()}")
    return Outcome(
        kernel=name,
        run=found.run,
        profile=found.baseline,
        best=found.best,
        speedup=found.speedup,
        correct=found.correct,
        new_text=found.new_text,
        changes=tuple(strategy.plan.title for strategy in found.strategies),
        evaluations=found.evaluations,
        notes=notes,
        problem=problem,
        report=pickle.dumps(found),
    )


USE_CASES: Mapping[str, UseCase] = {
    "profile": profile,
    "recheck": recheck,
    "optimize": optimize,
    "timeline": timeline,
    "check": check,
    "trace": trace,
}


if __name__ == "__main__":
    from accelopt_lsp.profiler.priority import yield_to_others

    yield_to_others()
    run(USE_CASES)
