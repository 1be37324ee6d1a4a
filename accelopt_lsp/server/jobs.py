"""Long jobs: each a task with an id and a child process, cancelled by our own code.

A cancelled request does not stop a command that has begun, so commands only start jobs and
return. Cancelling a job's task asks its child to end, and kills the child with everything
below it if it does not end within :data:`GRACE_SECONDS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from attrs import define, field

from accelopt_lsp.server.channel import Child, ChildDied, child_command
from accelopt_lsp.server.turns import Turns

logger = logging.getLogger(__name__)
JOB_CHILD = child_command("accelopt_lsp.server.job_process")
GRACE_SECONDS = 0.5
"""Time a cancelled child has to end by itself; with the kill, cancelling stays within 1 s."""
AT_ONCE = 2
"""Jobs that run at the same time unless the client says otherwise; others wait their turn."""

Report = Callable[..., None]


class JobError(RuntimeError):
    """A job's child failed. The message is for people."""


@define(slots=True, eq=False)
class Job:
    """One running job.

    Attributes:
        id: what clients cancel it by; its progress token, too.
        title: for people.
        key: operation, URI and kernel; a second job on the same thing is refused.
        on_cancel: called at once when the job is cancelled, before its child has gone.
    """

    id: str
    title: str
    key: tuple[str, ...]
    task: asyncio.Task[None] | None = field(default=None, repr=False)
    on_cancel: Callable[[], None] | None = field(default=None, repr=False)

    @property
    def ending(self) -> bool:
        """It was cancelled; what it started may not have gone yet."""
        return self.task is not None and self.task.cancelling() > 0


class Jobs:
    """The running jobs.

    Attributes:
        turns: of those that the user has asked for.
        background_turns: of those that nobody waits for.
    """

    def __init__(self, child: Sequence[str] = JOB_CHILD, grace: float = GRACE_SECONDS) -> None:
        self._child = tuple(child)
        self._grace = grace
        self._numbers = itertools.count(1)
        self._running: dict[str, Job] = {}
        self.turns = Turns(AT_ONCE)
        self.background_turns = Turns(1)

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Job]:
        return iter(tuple(self._running.values()))

    def working_on(self, key: tuple[str, ...]) -> Job | None:
        """The job on something; one that was cancelled is in nobody's way."""
        return next((job for job in self if job.key == key and not job.ending), None)

    def of(self, operation: str, uri: str) -> tuple[Job, ...]:
        """The jobs of one kind on one document."""
        return tuple(job for job in self if job.key[:2] == (operation, uri))

    def start(
        self, title: str, key: tuple[str, ...], body: Callable[[Job], Awaitable[None]]
    ) -> Job:
        """Start a job and return at once."""
        job = Job(f"accelopt-{key[0]}-{next(self._numbers)}", title, key)
        self._running[job.id] = job
        job.task = asyncio.create_task(self._run(job, body))
        return job

    async def _run(self, job: Job, body: Callable[[Job], Awaitable[None]]) -> None:
        try:
            await body(job)
        except asyncio.CancelledError:
            logger.info("%s was cancelled", job.id)
        except Exception:
            logger.exception("%s failed", job.id)
        finally:
            self._running.pop(job.id, None)

    def cancel(self, id: str) -> bool:
        """Cancel a job; False if there is none of that id. Returns at once."""
        job = self._running.get(id)
        if job is None or job.task is None:
            return False
        self._cancel(job)
        return True

    def _cancel(self, job: Job) -> None:
        if job.on_cancel is not None:
            job.on_cancel()
        if job.task is not None:
            job.task.cancel()

    async def run_child(
        self,
        operation: str,
        argument: Any,
        report: Report,
        *,
        keep: Callable[[Any], None] | None = None,
        background: bool = False,
        allowed: Callable[[], bool] = lambda: True,
    ) -> Any:
        """Do the work in a child process, when it is its turn.

        ``keep`` is given what the child has to show for it should it be cancelled, ``report``
        what it is at. ``background``: it waits for its like only, and nobody waits for it.
        ``allowed`` is asked when its turn has come. Cancelling the caller ends the child and all
        its descendants.

        Raises:
            JobError: the child failed.
        """

        def must_wait(ahead: int) -> None:
            report(f"waiting for {ahead} other run{'s' * (ahead != 1)}", None)

        turns = self.background_turns if background else self.turns
        async with turns.turn(must_wait):
            if not allowed():
                raise JobError("the workspace is no longer trusted")
            try:
                child = await Child.start(self._child)
            except OSError as error:
                raise JobError(f"no process can be started for the job: {error}") from None
            try:
                await child.send(operation, argument)
                return await self._converse(child, report, keep)
            except ChildDied as error:
                raise JobError(f"the job's process ended unexpectedly ({error})") from None
            except (RecursionError, OSError) as error:
                raise JobError(f"the job cannot be given to a process: {error}") from None
            finally:
                # Once begun, ending the child is not interrupted by a second cancel.
                await asyncio.shield(asyncio.ensure_future(child.stop(self._grace)))

    async def _converse(
        self, child: Child, report: Report, keep: Callable[[Any], None] | None
    ) -> Any:
        while True:
            kind, *rest = await child.receive()
            if kind == "progress":
                report(*rest)
            elif kind == "kept":
                if keep is not None:
                    keep(rest[0])
            elif kind == "result":
                return rest[0]
            else:
                logger.error("job failed: %s", rest[-1])
                raise JobError(str(rest[0]))

    async def close(self) -> None:
        """Cancel all jobs and wait until their processes are gone."""
        jobs = tuple(self)
        tasks = [job.task for job in jobs if job.task is not None]
        for job in jobs:
            self._cancel(job)
        if tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
