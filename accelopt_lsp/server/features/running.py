"""What "Optimize kernel" and "Profile kernel" share: trust, one job a kernel, progress, failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from lsprotocol import types as lsp

from accelopt_lsp.server.features.kernels import FoundKernel
from accelopt_lsp.server.jobs import Job, JobError
from accelopt_lsp.server.progress import Progress
from accelopt_lsp.server.snapshot import Outcome, Problem, Request

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


@frozen(slots=True)
class Run:
    """One run of one kernel: the text it works on, frozen when it began."""

    uri: str
    kernel: str
    text: str
    generation: int
    line: int


def start_run(
    app: App,
    found: FoundKernel,
    operation: str,
    title: str,
    done: Callable[[Run, Outcome], Coroutine[Any, Any, None]],
    details: Mapping[str, Any] | None = None,
) -> dict[str, str] | None:
    """Start a job on a kernel and return its id at once; None if it may not or need not start."""
    document, kernel = found.document, found.kernel
    if not app.configuration_of(document).trusted:
        app.tell(
            "This workspace is not trusted: kernels are analysed, but none is run.",
            lsp.MessageType.Warning,
        )
        return None
    key = (operation, document.uri, kernel.qualname)
    if (running := app.jobs.working_on(key)) is not None:
        app.tell(f"{title}: already running.")
        return {"job": running.id}
    run = Run(document.uri, kernel.qualname, document.text, document.generation, kernel.line)
    request = Request(
        path=str(document.path),
        text=document.text,
        function=kernel.qualname,
        settings=app.workbench_settings(document),
        details=details or {},
    )

    async def body(job: Job) -> None:
        progress = Progress(app, job.id)
        job.on_cancel = lambda: progress.end(f"{title}: cancelled")
        kept: Outcome | None = None

        def keep(outcome: Outcome) -> None:
            nonlocal kept
            kept = outcome

        await progress.begin(title)
        if app.findings.clear(run.uri, run.kernel):
            app.diagnostics_changed(run.uri)
        try:
            outcome: Outcome = await app.jobs.run_child(
                operation,
                request,
                progress.report,
                keep=keep,
                allowed=lambda: app.settings.of(run.uri).trusted,
            )
        except JobError as error:
            outcome = Outcome(run.kernel, problem=Problem(str(error)))
        except asyncio.CancelledError:
            if kept is not None and app.running:
                app.spawn(done(run, kept))
            raise
        if outcome.problem is not None:
            progress.end(f"{title}: failed")
            report_problem(app, run, outcome.problem)
            return
        progress.end(f"{title}: done")
        # The job is over; what the user does with the result may take as long as they like.
        app.spawn(done(run, outcome))

    return {"job": app.jobs.start(title, key, body).id}


def report_problem(app: App, run: Run, problem: Problem) -> None:
    """Say why a run failed: in a message, and as a diagnostic at its line."""
    document = app.documents.get(run.uri)
    name = document.path.name if document is not None else run.kernel
    where = run.kernel
    if problem.line is not None:
        cell = app.server.notebooks.described(run.uri, problem.line)
        where = f"{name}, {cell}" if cell is not None else f"{name}:{problem.line}"
    app.tell(f"{where}: {problem.message}", lsp.MessageType.Error)
    if document is None:
        return
    lines = run.text.split("\n")
    line = problem.line if problem.line is not None else run.line
    if not 1 <= line <= len(lines):
        return
    placed = Problem(problem.message, line, problem.column if problem.line else None, problem.code)
    if app.findings.add(run.uri, run.kernel, run.generation, placed, lines[line - 1]):
        app.diagnostics_changed(run.uri)
