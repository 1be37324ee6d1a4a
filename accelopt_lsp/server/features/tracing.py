"""After a save in a trusted workspace: what analysis could not know comes from a traced run.

A kernel whose loops or calls analysis could not follow runs on shapes, in a sandboxed child of a
job's process. The result goes into the cache of results, where the next analysis of the same text
finds it. An edit cancels the run: its result would be about a text that is no more.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from accelopt_lsp.server.documents import Document
from accelopt_lsp.server.jobs import Job, JobError
from accelopt_lsp.server.snapshot import KernelView, Outcome, Request

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

logger = logging.getLogger(__name__)
OPERATION = "trace"


def register(app: App) -> None:
    """Saving starts it (:mod:`synchronization`); there is nothing to answer."""


def after_save(app: App, document: Document) -> None:
    """Trace the kernels of a saved text that analysis could not count in full."""
    if app.configuration_of(document).trusted and document.concerns_nki:
        app.spawn(_trace_kernels(app, document.uri, document.generation))


def cancel(app: App, uri: str) -> None:
    """End the runs of a document; they are about an earlier text."""
    for job in app.jobs.of(OPERATION, uri):
        app.jobs.cancel(job.id)


def unknown(kernel: KernelView) -> bool:
    """Whether a run would tell something of a kernel that analysis does not."""
    work = kernel.workload
    return work is not None and not work.complete and not kernel.lacks


async def _trace_kernels(app: App, uri: str, generation: int) -> None:
    document = app.documents.get(uri)
    if document is None:
        return
    analysed = await app.analyses.current(document)
    if analysed is None or generation != analysed.generation or document.generation != generation:
        return
    for kernel in analysed.snapshot.kernels:
        if unknown(kernel):
            _start(app, document, kernel, generation)


def _start(app: App, document: Document, kernel: KernelView, generation: int) -> None:
    key = (OPERATION, document.uri, kernel.qualname)
    if app.jobs.working_on(key) is not None:
        return
    request = Request(
        path=str(document.path),
        text=document.text,
        function=kernel.qualname,
        settings=app.workbench_settings(document),
    )

    async def body(job: Job) -> None:
        try:
            outcome: Outcome = await app.jobs.run_child(
                OPERATION,
                request,
                lambda *_: None,
                background=True,
                allowed=lambda: app.settings.of(document.uri).trusted,
            )
        except JobError as error:
            logger.info("no trace of %s: %s", kernel.qualname, error)
            return
        if outcome.profile is None:
            why = outcome.problem.message if outcome.problem is not None else "no profile"
            logger.info("no trace of %s: %s", kernel.qualname, why)
            return
        current = app.documents.get(document.uri)
        if current is not None and current.generation == generation:
            app.analyses.schedule(current, at_once=True)

    app.jobs.start(f"Trace {kernel.qualname}", key, body)
