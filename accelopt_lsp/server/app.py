"""All wiring: the parts of the server, and the features that use them."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Coroutine, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from attrs import evolve
from lsprotocol import types as lsp

from accelopt_lsp.nki.diagnostics import Diagnostic
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.server.analyses import WORKER, Analysed, Analyses, Worker
from accelopt_lsp.server.channel import kill_all_children
from accelopt_lsp.server.client import Client
from accelopt_lsp.server.client_settings import ClientSettings
from accelopt_lsp.server.configuration import Configuration
from accelopt_lsp.server.documents import Document, Documents
from accelopt_lsp.server.findings import Findings
from accelopt_lsp.server.jobs import JOB_CHILD, Jobs
from accelopt_lsp.server.logs import ClientLog
from accelopt_lsp.server.protocol import Server
from accelopt_lsp.server.refreshing import Refresher
from accelopt_lsp.server.snapshot import KernelView
from accelopt_lsp.server.strategies import Strategies
from accelopt_lsp.server.transport import IN_TERMINAL, NotLsp, serve_stdio, serve_tcp

logger = logging.getLogger(__name__)
FIRST_ANSWER_SECONDS = 2.0
"""How long hints and lenses wait for an analysis when there is no earlier one to show."""


class App:
    """One server with everything it needs.

    Args:
        worker: command of the analysis process.
        job_child: command of the process that does one long job.

    Attributes:
        client: what the client can do; known from ``initialize`` on.
        settings: what the client configured.
        logs: sends what we log to the client.
        running: the client is there, and hears notifications.
        findings: diagnostics that jobs have left.
        answered_early: documents whose diagnostics were given before their analysis was finished.
        profiles: last simulated profile by document and kernel, with the text's generation.
        workspace_changed: set when files that are not open may have other diagnostics.
        targets: targets that were chosen for this session, by document.
        scratch: folder for files that the client is shown; removed at the end.
    """

    def __init__(
        self, worker: Sequence[str] = WORKER, job_child: Sequence[str] = JOB_CHILD
    ) -> None:
        self.documents = Documents()
        self.server = Server(self.documents)
        self.worker = Worker(worker)
        self.analyses = Analyses(
            self.documents, self.worker, self.workbench_settings, self._analysed, self._read
        )
        self.worker.restarted = self._worker_restarted
        self.strategies = Strategies(self.worker)
        self.jobs = Jobs(job_child)
        self.findings = Findings()
        self.client = Client()
        self.settings = ClientSettings()
        self.logs = ClientLog(self.server, lambda: self.running)
        self.running = False
        self.workspace_changed = asyncio.Event()
        self.targets: dict[str, str] = {}
        self.profiles: dict[tuple[str, str], tuple[int, Profile]] = {}
        self.answered_early: set[str] = set()
        self.stdio = True
        self._told_of_restart = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._problems: dict[str, str | None] = {}
        self._projects: dict[str, tuple[Diagnostic, ...]] = {}
        from accelopt_lsp.server.features import FEATURES

        for feature in FEATURES:
            feature.register(self)

    def workbench_settings(self, document: Document) -> dict[str, Any]:
        """The client's settings that the workbench knows, for one document."""
        settings = dict(self.configuration_of(document).workbench)
        if document.uri in self.targets:
            settings["target"] = self.targets[document.uri]
        return settings

    def configuration_of(self, document: Document) -> Configuration:
        """The settings that count for a document: those of its workspace folder."""
        return self.settings.of(document.uri)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something beside the handlers; errors are logged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished_task)

    def _finished_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("background work failed", exc_info=error)

    @cached_property
    def scratch(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="accelopt-"))

    def with_profile(self, document: Document, kernel: KernelView) -> KernelView:
        """A kernel with its simulated figures, if its text is still the one simulated."""
        generation, profile = self.profiles.get((document.uri, kernel.qualname), (None, None))
        if profile is None or generation != document.generation:
            return kernel
        return evolve(kernel, profile=profile)

    async def shown_analysis(self, document: Document, refreshes: bool) -> Analysed | None:
        """The analysis to answer from: the last one at once where the client will be told to
        ask again, else the current one if it comes soon."""
        latest = self.analyses.latest(document.uri)
        if latest is not None and refreshes:
            return latest
        return await self.analyses.current(document, FIRST_ANSWER_SECONDS)

    def _worker_restarted(self) -> None:
        """Said once; what it was that crashes again is said of the document."""
        if not self._told_of_restart:
            self.tell(
                "The analysis process ended unexpectedly and was started again.",
                lsp.MessageType.Warning,
            )
        self._told_of_restart = True

    def _read(self, document: Document) -> None:
        """What the tree shows is known: show it while the rest is computed."""
        if self.pushes(document.uri):
            self.publish(document)

    def _analysed(self, document: Document) -> None:
        """An analysis has finished: push, or have the client ask again."""
        analysed = self.analyses.latest(document.uri)
        problem = analysed.snapshot.problem if analysed is not None else None
        if problem is not None and problem != self._problems.get(document.uri):
            self.tell(f"{document.path.name}: {problem}", lsp.MessageType.Warning)
        self._problems[document.uri] = problem
        if analysed is not None and analysed.snapshot.project is not None:
            self._publish_project(*analysed.snapshot.project)
        if self.pushes(document.uri):
            self.publish(document)
        self.refresh(diagnostics=document.uri in self.answered_early)
        self.answered_early.discard(document.uri)

    def pushes(self, uri: str) -> bool:
        """Whether a document's diagnostics are pushed: no client is sure to pull those of cells."""
        notebook = self.server.notebooks.get(uri)
        return not self.client.pulls_diagnostics or (notebook is not None and not notebook.pulled)

    def publish(self, document: Document) -> None:
        """Push the diagnostics of a document that are not pulled."""
        from accelopt_lsp.server.features.diagnostics import diagnostics_of

        self.server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(
                document.uri, diagnostics_of(self, document), document.version
            )
        )

    def _publish_project(self, file: str, found: tuple[Diagnostic, ...]) -> None:
        """Push what is wrong with a ``pyproject.toml``: clients pull for Python files only."""
        from accelopt_lsp.server.features.diagnostics import project_diagnostics

        uri = Path(file).as_uri()
        if self._projects.get(uri, ()) == found:
            return
        self._projects[uri] = found
        self.server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri, project_diagnostics(found))
        )

    def clear_project(self, uri: str) -> None:
        """A ``pyproject.toml`` is gone, and what was wrong with it."""
        if self._projects.pop(uri, ()):
            self.server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def refresh(self, *, diagnostics: bool = True) -> None:
        """Have the client ask again for what it shows."""
        kinds = ("hints", "tokens", "lenses", *(("diagnostics",) if diagnostics else ()))
        self.refresher.ask(kinds)

    @cached_property
    def refresher(self) -> Refresher:
        client, server = self.client, self.server
        able = {
            "hints": client.refreshes_hints,
            "tokens": client.refreshes_tokens,
            "lenses": client.refreshes_lenses,
            "diagnostics": client.pulls_diagnostics and client.refreshes_diagnostics,
        }
        requests = {
            "hints": server.workspace_inlay_hint_refresh_async,
            "tokens": server.workspace_semantic_tokens_refresh_async,
            "lenses": server.workspace_code_lens_refresh_async,
            "diagnostics": server.workspace_diagnostic_refresh_async,
        }
        return Refresher(
            self.spawn, {k: partial(send, None) for k, send in requests.items() if able[k]}
        )

    def diagnostics_changed(self, uri: str) -> None:
        """Diagnostics changed without an edit."""
        document = self.documents.get(uri)
        if document is None:
            return
        if self.pushes(uri):
            self.publish(document)
        if self.client.pulls_diagnostics:
            self.refresh()

    def reanalyse(self) -> None:
        """Settings changed: every open document is analysed again."""
        self.workspace_changed.set()
        for document in self.documents:
            self.analyses.schedule(document, at_once=True)
        self.refresh()

    def log(self, message: str, kind: lsp.MessageType = lsp.MessageType.Info) -> None:
        self.server.window_log_message(lsp.LogMessageParams(kind, message))

    def tell(self, message: str, kind: lsp.MessageType = lsp.MessageType.Info) -> None:
        self.server.window_show_message(lsp.ShowMessageParams(kind, message))

    async def ask(self, message: str, answers: Sequence[str]) -> str | None:
        """Let the user choose; None if they dismiss the question or cannot be asked."""
        actions = [lsp.MessageActionItem(answer) for answer in answers]
        params = lsp.ShowMessageRequestParams(lsp.MessageType.Info, message, actions)
        try:
            chosen = await self.server.window_show_message_request_async(params)
        except Exception as error:
            logger.warning("the client cannot ask the user: %s", error)
            self.tell(message)
            return None
        return None if chosen is None else chosen.title

    async def show(self, name: str, text: str) -> bool:
        """Write a text to a file and show it; False if the client cannot."""
        try:
            folder = Path(tempfile.mkdtemp(prefix="accelopt-", dir=self.scratch))
            file = folder / name
            file.write_text(text, "utf-8")
        except OSError as error:
            self.log(f"no file can be written to show it: {error}", lsp.MessageType.Warning)
            return False
        return await self.show_file(file)

    async def show_file(self, file: Path, *, external: bool = False) -> bool:
        """Show a file, ``external`` in whatever opens such files; False if the client cannot."""
        if not self.client.shows_documents:
            return False
        params = lsp.ShowDocumentParams(file.as_uri(), external=external, take_focus=True)
        try:
            result = await self.server.window_show_document_async(params)
        except Exception as error:
            self.log(f"the client cannot show a document: {error}")
            return False
        return bool(result.success)

    async def apply(self, edit: lsp.WorkspaceEdit, label: str) -> str | None:
        """Have the client apply an edit; returns why it did not, or None."""
        if not self.client.applies_edits:
            return "this editor does not let a server apply edits"
        try:
            result = await self.server.workspace_apply_edit_async(
                lsp.ApplyWorkspaceEditParams(edit, label)
            )
        except Exception as error:
            return str(error)
        return None if result.applied else (result.failure_reason or "the editor refused it")

    async def close(self) -> None:
        """End everything that runs, and wait until it is gone."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await self.jobs.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.analyses.close()
        self.clean()

    def clean(self) -> None:
        """Remove what was written for the client to show."""
        if "scratch" in self.__dict__:
            shutil.rmtree(self.scratch, ignore_errors=True)


def serve(tcp_port: int | None = None, app: App | None = None) -> None:
    """Serve one client, on stdin and stdout or on a local TCP port, until it leaves."""
    level = os.environ.get("ACCELOPT_LOG_LEVEL", "WARNING").upper()
    logging.basicConfig(
        stream=sys.stderr,
        level=level,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for handler in logging.getLogger().handlers:
        # What the client wants to hear of is not for standard error.
        handler.setLevel(level)
    if tcp_port is None and sys.stdin.isatty():
        print(IN_TERMINAL, file=sys.stderr)
        sys.exit(2)
    app = app or App()
    app.logs.install()
    app.stdio = tcp_port is None
    _end_on_signals(app)
    asyncio.run(_serve(app, tcp_port))


async def _serve(app: App, tcp_port: int | None) -> NoReturn:
    protocol = app.server.protocol
    problem = None
    try:
        await (serve_stdio(protocol) if tcp_port is None else serve_tcp(protocol, tcp_port))
    except SystemExit:
        pass  # the client's exit
    except NotLsp as error:
        problem = str(error)
    except OSError as error:
        problem = f"cannot listen on port {tcp_port}: {error.strerror or error}"
    if problem is not None:
        print(f"accelopt: {problem}", file=sys.stderr)
        _end(app, 2)
    # LSP: an exit without a shutdown is an error.
    _end(app, 0 if protocol._shutdown else 1)


def _end(app: App, code: int) -> NoReturn:
    """Leave at once: nothing that still runs is of use, and a thread may wait for input."""
    kill_all_children()
    app.clean()
    os._exit(code)


def _end_on_signals(app: App) -> None:
    def end(number: int, frame: FrameType | None) -> None:
        _end(app, 128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
