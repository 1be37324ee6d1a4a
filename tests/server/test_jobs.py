"""Child processes: the worker survives bad texts, a cancelled job leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from lsprotocol import types as lsp

from accelopt_lsp.profiler.priority import NICENESS
from accelopt_lsp.server.analyses import Analyses, Worker, WorkerError
from accelopt_lsp.server.channel import Child, ChildDied
from accelopt_lsp.server.documents import Documents
from accelopt_lsp.server.jobs import JobError, Jobs
from accelopt_lsp.server.processes import descendants, kill
from accelopt_lsp.server.snapshot import Outcome, Request
from tests.server.fakes import JOB, WORKER

KERNEL = "import nki\n@nki.jit\ndef fast(x):\n    t = nl.load(x)\n"


async def gone(pids: set[int], seconds: float) -> bool:
    """Whether all these processes end within that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        living = {p.pid for p in descendants(os.getpid())}
        if not pids & living:
            return True
        await asyncio.sleep(0.02)
    return False


async def test_worker_answers_and_stays_warm():
    worker = Worker(WORKER)
    try:
        first = await worker.request("echo", {"a": 1})
        second = await worker.request("echo", "é")
    finally:
        await worker.close()
    assert first[0] == {"a": 1}
    assert second[0] == "é"
    assert first[1] == second[1]


async def test_worker_is_replaced_after_a_crash():
    worker = Worker(WORKER)
    try:
        with pytest.raises(WorkerError, match="ended unexpectedly"):
            await worker.request("check", Request("k.py", "# crash"))
        assert (await worker.request("echo", 7))[0] == 7
    finally:
        await worker.close()


async def test_a_worker_that_someone_ends_is_replaced_without_an_error():
    worker, restarts = Worker(WORKER), []
    worker.restarted = lambda: restarts.append(worker.pid)
    try:
        await worker.request("warm", None)
        asking = asyncio.create_task(worker.request("check", Request("k.py", "# pause")))
        await asyncio.sleep(0.1)
        assert worker.pid is not None
        kill(worker.pid)
        assert (await asking).problem is None
        assert len(restarts) == 1
    finally:
        await worker.close()


async def test_worker_is_stopped_at_its_time_limit():
    worker = Worker(WORKER)
    try:
        await worker.request("warm", None)
        worker.time_limit = 0.3
        with pytest.raises(WorkerError, match="longer than"):
            await worker.request("check", Request("k.py", "# slow"))
        worker.time_limit = 10
        assert (await worker.request("echo", 7))[0] == 7
    finally:
        await worker.close()


async def test_an_error_in_the_worker_is_reported():
    worker = Worker(WORKER)
    try:
        with pytest.raises(WorkerError, match="KeyError"):
            await worker.request("no-such-operation", None)
        assert (await worker.request("echo", 7))[0] == 7
    finally:
        await worker.close()


async def test_urgent_requests_overtake():
    worker = Worker(WORKER)
    order = []

    async def ask(name, urgent):
        await worker.request("echo", name, urgent=urgent)
        order.append(name)

    try:
        await asyncio.gather(ask("first", False), ask("check", False), ask("fix", True))
    finally:
        await worker.close()
    assert order.index("fix") < order.index("check")


async def test_closing_ends_the_worker_and_refuses_what_waits():
    worker = Worker(WORKER)
    await worker.request("warm", None)
    pid = worker.pid
    waiting = asyncio.create_task(worker.request("check", Request("k.py", "# slow")))
    await asyncio.sleep(0.1)
    await worker.close()
    assert pid is not None
    assert await gone({pid}, 1)
    waiting.cancel()
    with pytest.raises(WorkerError, match="shutting down"):
        await worker.request("echo", 1)


async def test_newest_text_wins():
    documents, seen = Documents(), []
    worker = Worker(WORKER)
    analyses = Analyses(
        documents, worker, lambda d: {}, lambda d: seen.append(analyses.latest(d.uri))
    )
    item = lsp.TextDocumentItem("file:///k.py", "python", 1, KERNEL + "# pause\n")
    document = documents.open(item)
    try:
        analyses.schedule(document, at_once=True)
        await asyncio.sleep(0.1)
        for version in range(2, 12):
            document.apply(
                [lsp.TextDocumentContentChangeWholeDocument(text=f"{KERNEL}# {version}\n")], version
            )
            analyses.schedule(document)
        found = await analyses.current(document)
    finally:
        await analyses.close()
    assert found is not None
    assert found.generation == document.generation
    assert len(seen) == 2


async def test_a_job_reports_and_returns():
    jobs, messages = Jobs(JOB), []
    request = Request("k.py", KERNEL, "fast")
    outcome = await jobs.run_child("optimize", request, lambda *a: messages.append(a))
    assert isinstance(outcome, Outcome)
    assert outcome.speedup == 2.0
    assert [share for _, share in messages] == [pytest.approx(n / 3) for n in (1, 2, 3)]


@pytest.mark.parametrize(("kernel", "message"), [("dies", "ended"), ("raises", "search broke")])
async def test_a_failing_job_says_why(kernel, message):
    with pytest.raises(JobError, match=message):
        await Jobs(JOB).run_child("optimize", Request("k.py", KERNEL, kernel), lambda *_: None)


@pytest.mark.parametrize("kernel", ["forever", "forever_deaf"])
async def test_a_cancelled_job_leaves_no_process(kernel):
    """Also when the child does not listen, and its own child is in another session."""
    before = {p.pid for p in descendants(os.getpid())}
    jobs, started = Jobs(JOB), asyncio.Event()

    async def body(job):
        request = Request("k.py", KERNEL, kernel)
        await jobs.run_child("optimize", request, lambda *_: started.set())

    acknowledged = []
    job = jobs.start("test", ("optimize", "k.py", kernel), body)
    job.on_cancel = lambda: acknowledged.append(time.monotonic())
    await asyncio.wait_for(started.wait(), 20)
    family = {p.pid for p in descendants(os.getpid())} - before
    assert len(family) == 2
    begun = time.monotonic()
    assert jobs.cancel(job.id)
    assert acknowledged[0] - begun < 0.1
    assert await gone(family, 5)
    await jobs.close()
    assert len(jobs) == 0
    assert not jobs.cancel(job.id)


async def test_a_job_that_is_ending_is_in_nobodys_way():
    jobs, key = Jobs(JOB), ("optimize", "file:///k.py", "fast")
    release = asyncio.Event()

    async def slow_to_end(_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await release.wait()

    first = jobs.start("first", key, slow_to_end)
    await asyncio.sleep(0)
    assert jobs.working_on(key) is first
    assert jobs.cancel(first.id)
    assert jobs.working_on(key) is None
    second = jobs.start("second", key, slow_to_end)
    assert second.id != first.id
    release.set()
    assert first.task is not None
    await first.task
    assert jobs.working_on(key) is second
    await jobs.close()
    assert len(jobs) == 0


ENDLESS = """import nki
import nki.language as nl


# accelopt: x=f32[128,64]
@nki.jit
def endless(x):
    while True:
        pass
"""


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="no priorities there")
async def test_all_processes_of_a_job_yield_to_the_editor(tmp_path):
    """In one session: where sessions share the time, a new one has the usual priority."""
    before = {p.pid for p in descendants(os.getpid())}
    jobs, path = Jobs(), tmp_path / "k.py"
    path.write_text(ENDLESS)
    tracing = asyncio.Event()

    async def body(job):
        def report(text: str, share: float | None) -> None:
            if "tracing" in text:
                tracing.set()

        await jobs.run_child("profile", Request(str(path), ENDLESS, "endless"), report)

    jobs.start("test", ("profile", "k.py", "endless"), body)
    await asyncio.wait_for(tracing.wait(), 60)
    family = {p.pid for p in descendants(os.getpid())} - before
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert len(family) >= 2
    assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in family} == {max(ours, NICENESS)}
    assert len({os.getsid(pid) for pid in family} - {os.getsid(0)}) == 1
    groups = {os.getpgid(pid) for pid in family}
    assert len(groups) == len(family)
    await jobs.close()


async def test_closing_ends_all_jobs():
    before = {p.pid for p in descendants(os.getpid())}
    jobs, started = Jobs(JOB), asyncio.Semaphore(0)

    async def body(job):
        request = Request("k.py", KERNEL, "forever")
        await jobs.run_child("optimize", request, lambda *_: started.release())

    for name in ("a", "b", "waits-for-its-turn"):
        jobs.start(name, ("optimize", "k.py", name), body)
    for _ in range(4):
        await asyncio.wait_for(started.acquire(), 20)
    family = {p.pid for p in descendants(os.getpid())} - before
    await jobs.close()
    assert await gone(family, 1)
    assert len(jobs) == 0


async def test_a_child_that_cannot_start_is_an_error():
    child = await Child.start(("/bin/false",))
    with pytest.raises(ChildDied):
        await child.receive()
    await child.stop()
