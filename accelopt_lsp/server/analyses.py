"""Keeps every open document analysed: a short pause after typing, newest text wins.

The server holds the last finished analysis of each document and answers from it at once;
whoever needs the current text's analysis waits for it here.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from accelopt_lsp.server.channel import Child, ChildDied, Message, child_command
from accelopt_lsp.server.documents import Document, Documents
from accelopt_lsp.server.snapshot import Request, Snapshot

logger = logging.getLogger(__name__)
WORKER = child_command("accelopt_lsp.server.worker")
PAUSE_SECONDS = 0.15
"""Least pause between the last keystroke and an analysis; it grows with slow analyses."""
LONGEST_PAUSE_SECONDS = 1.0
TIME_LIMIT_SECONDS = 20.0
START_LIMIT_SECONDS = 120.0


class WorkerError(RuntimeError):
    """The worker could not answer. The message is for people."""


class _Crashed(WorkerError):
    """The process has gone."""


class Worker:
    """The warm analysis process: one request at a time, urgent ones first.

    Attributes:
        buffers: gives what the process must know of open documents before its next request:
            all of them if it is a new one, else what has changed; None if nothing has.
        restarted: called when the process died and the request is given to a new one.
    """

    def __init__(
        self, command: Sequence[str] = WORKER, time_limit: float = TIME_LIMIT_SECONDS
    ) -> None:
        self.command = tuple(command)
        self.time_limit = time_limit
        self.buffers: Callable[[bool], Mapping[str, str | None] | None] = lambda new: None
        self.restarted: Callable[[], None] = lambda: None
        self._child: Child | None = None
        self._waiting: asyncio.PriorityQueue[Any] = asyncio.PriorityQueue()
        self._order = itertools.count()
        self._loop: asyncio.Task[None] | None = None
        self._closed = False

    async def request(self, operation: str, argument: Any, *, urgent: bool = False) -> Any:
        """Ask the worker and wait for its answer.

        Raises:
            WorkerError: it failed, died or took too long; the next request gets a new one.
        """
        if self._closed:
            raise WorkerError("the server is shutting down")
        if self._loop is None:
            self._loop = asyncio.create_task(self._serve())
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait(
            (0 if urgent else 1, next(self._order), operation, argument, answer)
        )
        return await answer

    async def _serve(self) -> None:
        while True:
            _, _, operation, argument, answer = await self._waiting.get()
            if answer.done():
                continue
            try:
                try:
                    value = await self._exchange(operation, argument)
                except _Crashed:
                    # Whoever ended it need not have been this request; a second time, it was.
                    self.restarted()
                    value = await self._exchange(operation, argument)
            except WorkerError as error:
                if not answer.done():
                    answer.set_exception(error)
            except Exception as error:
                # Whatever it was, those that wait behind it are answered.
                logger.exception("%s failed", operation)
                await self._discard()
                if not answer.done():
                    answer.set_exception(WorkerError(f"internal error in {operation}: {error}"))
            else:
                if not answer.done():
                    answer.set_result(value)

    async def _exchange(self, operation: str, argument: Any) -> Any:
        try:
            new = self._child is None or not self._child.alive
            if self._child is None or new:
                self._child = await Child.start(self.command)
                # Imports take their time, the more so on a busy machine; analyses do not.
                await self._child.send("warm", None)
                await self._receive(self._child, START_LIMIT_SECONDS)
            buffers = self.buffers(new)
            if buffers is not None:
                await self._child.send("buffers", buffers)
                await self._receive(self._child, self.time_limit)
            await self._child.send(operation, argument)
            kind, *rest = await self._receive(self._child, self.time_limit)
        except TimeoutError:
            await self._discard()
            raise WorkerError(
                f"analysis took longer than {self.time_limit:g} s and was stopped"
            ) from None
        except (ChildDied, OSError) as error:
            logger.warning("the analysis process ended: %s", error)
            await self._discard()
            raise _Crashed("the analysis process ended unexpectedly") from None
        if kind == "error":
            logger.error("analysis failed: %s", rest[-1])
            raise WorkerError(f"internal error in {rest[0]}")
        return rest[0]

    @staticmethod
    async def _receive(child: Child, seconds: float) -> Message:
        async with asyncio.timeout(seconds):  # wait_for may swallow a cancel before Python 3.12
            return await child.receive()

    async def _discard(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    async def close(self) -> None:
        """End the process; requests still waiting are refused."""
        self._closed = True
        if self._loop is not None:
            self._loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loop
        while not self._waiting.empty():
            answer = self._waiting.get_nowait()[-1]
            if not answer.done():
                answer.set_exception(WorkerError("the server is shutting down"))
        await self._discard()


@frozen(slots=True)
class Analysed:
    """A snapshot and the text it is of."""

    snapshot: Snapshot
    generation: int


EMPTY = Snapshot()


@define(slots=True, eq=False)
class _Entry:
    """State of one open document."""

    due: float = 0.0
    first_change: float | None = None
    last_seconds: float = 0.0
    syntax: Analysed | None = None
    done: Analysed | None = None
    task: asyncio.Task[None] | None = None
    sooner: asyncio.Event = field(factory=asyncio.Event)
    read: asyncio.Event = field(factory=asyncio.Event)
    finished: asyncio.Event = field(factory=asyncio.Event)


class Analyses:
    """The last finished analysis of each open document.

    Args:
        documents: open documents.
        worker: process that analyses.
        settings: gives the workbench settings for a document.
        finished: called with a document after each analysis.
        read: called with a document as soon as what its tree shows is known.
    """

    def __init__(
        self,
        documents: Documents,
        worker: Worker,
        settings: Callable[[Document], dict[str, Any]],
        finished: Callable[[Document], None],
        read: Callable[[Document], None] = lambda _: None,
    ) -> None:
        self._documents = documents
        self._worker = worker
        self._settings = settings
        self._read = read
        self._finished = finished
        self._entries: dict[str, _Entry] = {}
        self._told: dict[str, int] = {}
        worker.buffers = self._buffers

    def _buffers(self, new: bool) -> Mapping[str, str | None] | None:
        """Texts of open documents that the worker does not know yet; None for closed ones."""
        if new:
            self._told.clear()
        open_ = {str(d.path): d for d in self._documents if d.is_file}
        changed: dict[str, str | None] = {
            path: d.text for path, d in open_.items() if self._told.get(path) != d.generation
        }
        changed |= dict.fromkeys(self._told.keys() - open_.keys())
        self._told = {path: d.generation for path, d in open_.items()}
        return changed or None

    def latest(self, uri: str) -> Analysed | None:
        """The last finished analysis, perhaps of an earlier text."""
        entry = self._entries.get(uri)
        return None if entry is None else entry.done

    def syntax(self, uri: str) -> Analysed | None:
        """What the tree shows of a text newer than the last finished analysis, if anything."""
        entry = self._entries.get(uri)
        if entry is None or entry.syntax is None:
            return None
        if entry.done is not None and entry.done.generation >= entry.syntax.generation:
            return None
        return entry.syntax

    async def readable(self, document: Document) -> None:
        """Wait until what the current text's tree shows is known, or everything is."""
        entry = self._entries.get(document.uri)
        if entry is not None and entry.task is not None and not entry.task.done():
            await entry.read.wait()

    def schedule(self, document: Document, *, at_once: bool = False) -> None:
        """Analyse a document's current text, after the pause that typing calls for."""
        loop = asyncio.get_running_loop()
        entry = self._entries.setdefault(document.uri, _Entry())
        now = loop.time()
        if entry.first_change is None:
            entry.first_change = now
        pause = min(max(PAUSE_SECONDS, entry.last_seconds), LONGEST_PAUSE_SECONDS)
        # Someone who types without a pause still gets results every now and then.
        entry.due = now if at_once else min(now + pause, entry.first_change + 4 * pause)
        if at_once:
            entry.sooner.set()
        entry.finished.clear()
        entry.read.clear()
        if entry.task is None or entry.task.done():
            entry.task = asyncio.create_task(self._run(document.uri, entry))

    def schedule_importers(self, changed: Document) -> None:
        """Analyse the open documents whose analysis read another one's text."""
        path = str(changed.path)
        for document in self._documents:
            latest = self.latest(document.uri)
            if document is not changed and latest is not None and path in latest.snapshot.files:
                self.schedule(document)

    def forget(self, uri: str) -> None:
        """The document was closed."""
        entry = self._entries.pop(uri, None)
        if entry is not None:
            entry.read.set()
            entry.finished.set()
            if entry.task is not None:
                entry.task.cancel()

    async def current(self, document: Document, seconds: float | None = None) -> Analysed | None:
        """The analysis of the current text, or the last one if that takes too long."""
        entry = self._entries.get(document.uri)
        if entry is None:
            return None
        if entry.task is not None and not entry.task.done():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await entry.finished.wait()
        return entry.done

    async def _run(self, uri: str, entry: _Entry) -> None:
        try:
            while (document := self._documents.get(uri)) is not None:
                if await self._settle(document, entry):
                    break
        finally:
            entry.read.set()
            entry.finished.set()

    async def _settle(self, document: Document, entry: _Entry) -> bool:
        """One analysis after the pause; False if the text has changed meanwhile."""
        loop = asyncio.get_running_loop()
        while (left := entry.due - loop.time()) > 0:  # each keystroke moves it
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await entry.sooner.wait()
            entry.sooner.clear()
        entry.sooner.clear()
        entry.first_change = None
        generation, due, started = document.generation, entry.due, loop.time()
        request = Request(str(document.path), document.text, settings=self._settings(document))
        if document.concerns_nki:
            entry.syntax = Analysed(await self._ask("syntax", request), generation)
            if document.generation == generation and entry.syntax.snapshot.problem is None:
                entry.read.set()
                self._read(document)
        snapshot = await self._ask("check", request) if document.concerns_nki else EMPTY
        entry.done = Analysed(snapshot, generation)
        entry.last_seconds = loop.time() - started
        logger.debug("analysed %s in %.3f s", document.path.name, entry.last_seconds)
        self._finished(document)
        return document.generation == generation and entry.due == due

    async def _ask(self, operation: str, request: Request) -> Snapshot:
        try:
            snapshot: Snapshot = await self._worker.request(operation, request)
        except WorkerError as error:
            return Snapshot(problem=str(error))
        return snapshot

    async def close(self) -> None:
        for uri in tuple(self._entries):
            self.forget(uri)
        await self._worker.close()
