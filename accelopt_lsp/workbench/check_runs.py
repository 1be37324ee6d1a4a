"""Runs analyses: one text here, many in worker processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from attrs import frozen

from accelopt_lsp.analysis import AnalysisOptions, FileAnalysis, analyze
from accelopt_lsp.analysis.caches import settle_collector
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.workspace import Limits, Workspace
from accelopt_lsp.nki.arguments import ArgumentSpec
from accelopt_lsp.workbench.check_cache import Checked
from accelopt_lsp.workbench.settings import Settings

PARALLEL_FROM = 12
"""Fewer files are done before a pool of processes has started."""


def options_for(
    settings: Settings,
    target: str | None = None,
    overrides: Mapping[str, ArgumentSpec | Mapping[str, ArgumentSpec]] | None = None,
    path: Path | None = None,
) -> AnalysisOptions:
    """Analysis options from settings for a file; ``target`` wins over what files say."""
    return AnalysisOptions(
        target=target,
        default_target=settings.target,
        nki_version=settings.nki_version,
        ignore=settings.ignored_in(path),
        severities=settings.severity,
        overrides=overrides or {},
    )


def check_text(
    text: str,
    path: Path | None = None,
    settings: Settings | None = None,
    *,
    target: str | None = None,
    workspace: Workspace | None = None,
) -> FileAnalysis:
    """Analyze one text. Never raises on its contents."""
    options = options_for(settings or Settings(), target, path=path)
    return analyze(Document.parse(text), path=path, options=options, workspace=workspace)


@frozen(slots=True)
class Work:
    """A text to analyze, and how."""

    path: Path
    text: str
    settings: Settings
    target: str | None


Outcome = tuple[Checked | None, str]
"""What was found; or None, and why the analysis failed."""


def run_checks(
    works: Sequence[Work], jobs: int | None = None
) -> Iterator[tuple[Work, Checked | None, str]]:
    """Analyze texts, each as soon as there is room, in no set order.

    Args:
        works: what to analyze.
        jobs: worker processes; None takes one a core. Few texts are analyzed in this process.
    """
    workers = jobs if jobs is not None else (os.cpu_count() or 1)
    if len(works) < PARALLEL_FROM or workers < 2:
        workspace = Workspace(limits=_LIMITS)
        for work in works:
            yield (work, *_check(work, workspace))
        return
    # The largest first: none of them is left to run alone at the end.
    ordered = sorted(works, key=lambda w: -len(w.text))
    done: set[int] = set()
    try:
        for number, outcome in _in_pool(ordered, min(workers, len(ordered))):
            done.add(number)
            yield (ordered[number], *outcome)
    except BrokenProcessPool:
        # A worker died, and nobody knows over which file: those left get one each.
        for number, work in enumerate(ordered):
            if number not in done:
                yield (work, *_alone(work))


def _alone(work: Work) -> Outcome:
    try:
        ((_, outcome),) = _in_pool([work], 1)
    except BrokenProcessPool:
        return None, "the process that analyzed it died; this is a defect"
    return outcome


def _in_pool(works: Sequence[Work], workers: int) -> Iterator[tuple[int, Outcome]]:
    """Outcomes by number.

    Raises:
        BrokenProcessPool: a worker died.
    """
    pool = ProcessPoolExecutor(workers, initializer=_start_worker)
    try:
        futures: dict[Future[Outcome], int] = {
            pool.submit(_check_in_worker, work): number for number, work in enumerate(works)
        }
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        # Who interrupts does not want to wait for files that nobody will hear of.
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    pool.shutdown()


_LIMITS = Limits(modules=5_000)
_known_files = Workspace(limits=_LIMITS)
"""The files that a worker knows: they are taken not to change during a check."""


def _start_worker() -> None:
    # Ctrl-C reaches the whole process group; the parent ends its workers.
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    settle_collector()


def _check_in_worker(work: Work) -> Outcome:
    return _check(work, _known_files)


def _check(work: Work, workspace: Workspace) -> Outcome:
    try:
        analysis = check_text(
            work.text, work.path, work.settings, target=work.target, workspace=workspace
        )
    except Exception as error:
        # One file that cannot be analyzed must not hide what the others hold.
        return None, f"the analysis failed ({type(error).__name__}: {error}); this is a defect"
    return Checked.of(analysis), ""
