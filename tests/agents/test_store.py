"""Laws of the run store: nothing finished is lost or repeated."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from accelopt_lsp.agents.codec import (
    CodecError,
    arguments_from_json,
    arguments_to_json,
    outcome_from_json,
    outcome_to_json,
)
from accelopt_lsp.agents.learning import Lessons, flush_pending
from accelopt_lsp.agents.memory import OptimizationMemory
from accelopt_lsp.agents.process_identity import is_alive, this_process
from accelopt_lsp.agents.roles import Experience
from accelopt_lsp.agents.run_records import RunRecord, UnknownRun
from accelopt_lsp.agents.store import RunStore
from accelopt_lsp.nki.arguments import KernelArguments, parse_spec
from accelopt_lsp.nki.profile import Bound, LineProfile, Profile, Provenance, Uncertainty
from accelopt_lsp.profiler.base import Failure, FailureKind, Job, Outcome, Progress
from tests.agents.landscape import ARGUMENTS, TEXT, FakeProfiler, Walker, quick, search, start
from tests.agents.test_search import outcome


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    opened = RunStore(tmp_path / "runs.sqlite3")
    yield opened
    opened.close()


def begin(store: RunStore, name: str = "run") -> str:
    now = time.time()
    record = RunRecord(
        id=name,
        created=now,
        updated=now,
        status="running",
        path="kernel.py",
        function="kernel",
        target="trn1",
        dialect="legacy",
        text=TEXT,
        arguments=ARGUMENTS,
        reference=None,
        settings=quick().to_json(),
        roles={"planner": "walker"},
        version="0",
    )
    return store.begin(record)


@pytest.mark.parametrize(
    "value",
    [
        Profile("k", "trn1", "simulator", Provenance.SIMULATED, None),
        Profile(
            "k",
            "trn2",
            "simulator",
            Provenance.MEASURED,
            1.25,
            uncertainty=Uncertainty(1.0, 1.5, extrapolated=True),
            bound=Bound.TENSOR,
            correct=True,
            max_relative_error=1e-6,
            counters={"hbm_read_bytes": 5.0, "spill_save_bytes": None},
            engine_busy_ms={"tensor": 1.0},
            lines=(LineProfile(3, "tensor", 4, 0.5),),
            notes=("a",),
        ),
        Failure(FailureKind.REJECTED, "no", 3, 4, "R023", (("f.py", 3, "x"),)),
    ],
)
def test_outcomes_survive_json(value: Profile | Failure) -> None:
    assert outcome_from_json(json.loads(json.dumps(outcome_to_json(value)))) == value


def test_an_outcome_of_a_later_version_is_read_and_nonsense_is_not() -> None:
    data = outcome_to_json(Profile("k", "trn1", "s", Provenance.SIMULATED, 1.0))
    data["profile"]["added_later"] = 1
    assert outcome_from_json(data).latency_ms == 1.0  # type: ignore[union-attr]
    with pytest.raises(CodecError):
        outcome_from_json({"kind": "profile", "profile": {"kernel": "k"}})


def test_arguments_survive_json() -> None:
    arguments = KernelArguments(
        values={
            name: parse_spec(text)
            for name, text in {
                "x": "bf16[128,512]~N(0,2)",
                "eps": "1e-05",
                "mode": "nl.float32",
                "pair": "(f32[1], 'a b', None)",
                "file": "@data.npy",
            }.items()
        },
        target="trn2",
        reference="ref.py",
        grid=(2,),
        origins={"x": "directive"},
        missing=("y",),
    )
    assert arguments_from_json(json.loads(json.dumps(arguments_to_json(arguments)))) == arguments


def test_an_evaluation_is_kept_once(store: RunStore) -> None:
    run = begin(store)
    first = Profile("k", "trn1", "s", Provenance.SIMULATED, 1.0)
    second = Profile("k", "trn1", "s", Provenance.SIMULATED, 2.0)
    store.record_evaluation(run, "key", TEXT, (0,), first, 0.1)
    store.record_evaluation(run, "key", TEXT, (0,), second, 0.1)
    found = store.evaluation(run, "key")
    assert found is not None
    assert found[0] == first
    assert store.load(run).evaluations == store.evaluation_count(run) == 1


def test_listing_and_export(store: RunStore) -> None:
    begin(store, "aaa-1")
    begin(store, "aab-2")
    assert {r.id for r in store.runs()} == {"aaa-1", "aab-2"}
    assert len(store.runs(limit=1)) == 1
    assert store.load("aab").id == "aab-2"
    with pytest.raises(UnknownRun, match="several"):
        store.load("aa")
    with pytest.raises(UnknownRun, match="runs list"):
        store.load("zzz")
    store.delete("aab")
    assert [r.id for r in store.runs()] == ["aaa-1"]


async def test_a_run_leaves_its_whole_story(store: RunStore) -> None:
    run = begin(store)
    lessons = Lessons(store=store, run=run)
    result = await search(quick(), store=store, run=run, lessons=lessons)
    story = json.loads(json.dumps(store.export(run)))
    assert len(story["evaluations"]) == result.evaluations
    assert {a["id"] for a in story["attempts"]} == {a.id for a in result.attempts}
    assert [b["candidate"] for b in story["beams"] if b["iteration"] == result.iterations] == [
        c.id for c in result.beam
    ]
    assert all(a["parent"] for a in story["attempts"])
    assert story["plans"]
    assert story["experiences"]
    assert story["arguments"]["values"] == {"x": "f32[128,512]"}


async def test_cancelling_keeps_what_was_evaluated_and_leaves_nothing_running(
    store: RunStore,
) -> None:
    run = begin(store)
    profiler = FakeProfiler(hold_after=7)
    task = asyncio.create_task(search(quick(), profiler, store=store, run=run))
    await profiler.held.acquire()
    await profiler.held.acquire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert profiler.running == 0
    assert profiler.cancelled == 2
    assert store.evaluation_count(run) == 7


@pytest.mark.parametrize("stop_after", [0, 1, 5, 11, 17, 23])
async def test_a_resumed_run_repeats_nothing_and_ends_the_same(
    store: RunStore, stop_after: int
) -> None:
    chosen = quick(fix_rounds=1, attempts=2)
    traps = {"fails": frozenset({(3, 1), (4, 2)}), "wrong": frozenset({(3, 2), (1, 4)})}
    whole = await search(chosen, FakeProfiler(**traps))
    run = begin(store)
    profiler = FakeProfiler(**traps, hold_after=stop_after)
    task = asyncio.create_task(search(chosen, profiler, store=store, run=run))
    await profiler.held.acquire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    kept = store.evaluation_count(run)
    assert kept == stop_after
    again = FakeProfiler(**traps)
    resumed = await search(chosen, again, store=store, run=run)
    assert outcome(resumed) == outcome(whole)
    assert resumed.evaluations == whole.evaluations
    assert len(again.calls) == whole.evaluations - kept
    assert resumed.reused == kept


async def test_a_crash_is_no_finished_evaluation(store: RunStore) -> None:
    class Crashing(FakeProfiler):
        async def profile(self, job: Job, progress: Progress | None = None) -> Outcome:
            await super().profile(job)
            raise MemoryError("killed")

    run = begin(store)
    chosen = quick(iterations=1)
    result = await search(chosen, Crashing(), store=store, run=run)
    assert not result.verified
    assert "MemoryError" in (result.attempts[0].error or "")
    assert store.evaluation_count(run) == 0
    assert (await search(chosen, FakeProfiler(), store=store, run=run)).verified


RUN = """
    import asyncio, sys
    from pathlib import Path
    from accelopt_lsp.agents.store import RunStore
    from tests.agents.landscape import FakeProfiler, quick, search
    class Telling(FakeProfiler):
        async def profile(self, job, progress=None):
            outcome = await super().profile(job)
            print(job.seeds, flush=True)
            return outcome
    store = RunStore(Path(sys.argv[1]))
    profiler = Telling(fails=frozenset({(3, 1)}), wrong=frozenset({(3, 2)}), shuffle=1)
    asyncio.run(search(quick(fix_rounds=1), profiler, store=store, run="run"))
    print("done", flush=True)
"""


def test_kills_in_the_middle_lose_and_repeat_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    store = RunStore(path)
    begin(store)
    traps = {"fails": frozenset({(3, 1)}), "wrong": frozenset({(3, 2)})}
    whole = asyncio.run(search(quick(fix_rounds=1), FakeProfiler(**traps)))
    moments = random.Random(5)
    kept = kills = 0
    done = False
    while not done:
        process = start(RUN, str(path))
        assert process.stdout is not None
        for line in process.stdout:
            done = line == "done\n"
            if not done and moments.random() < 0.15:
                process.kill()
                kills += 1
                break
        process.communicate()
        assert store.evaluation_count("run") >= kept
        kept = store.evaluation_count("run")
    assert kills > 2
    assert kept == whole.evaluations
    final = FakeProfiler(**traps)
    resumed = asyncio.run(search(quick(fix_rounds=1), final, store=store, run="run"))
    assert final.calls == []
    assert outcome(resumed) == outcome(whole)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


async def test_what_the_memory_could_not_take_is_given_to_it_later(
    store: RunStore, tmp_path: Path
) -> None:
    path = tmp_path / "memory.sqlite3"
    memory = OptimizationMemory(path, busy_seconds=0.01)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    run = begin(store)
    lessons = Lessons(memory, store, run)
    result = await search(quick(iterations=1), store=store, run=run, lessons=lessons)
    assert any("kept with run" in note for note in result.notes)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert len(memory) == 0
    pending = store.pending_experiences()
    assert pending
    assert flush_pending(memory, store, pytest.fail) == len(pending)
    assert len(memory) == len({e.id for _, _, e in pending})
    assert store.pending_experiences() == []
    memory.close()


async def test_wins_and_losses_are_counted_once(store: RunStore, tmp_path: Path) -> None:
    memory = OptimizationMemory(tmp_path / "memory.sqlite3")
    known = Experience("known", "a title", "a text", rewrite="known")
    memory.add(known)
    run = begin(store)
    counts = []
    for _ in range(2):
        lessons = Lessons(memory, store, run, [known])
        await search(quick(iterations=1, exp_n=1), store=store, run=run, lessons=lessons)
        counts.append((memory.get("known").wins, memory.get("known").losses))
    assert counts[0] == counts[1]
    assert counts[0] == (1, 0)
    memory.close()


@pytest.mark.parametrize(("steps", "came_true"), [(((-1, 0),), True), (((1, 0),), False)])
async def test_advice_to_avoid_wins_when_it_was_right(
    tmp_path: Path, steps: tuple[tuple[int, int], ...], came_true: bool
) -> None:
    memory = OptimizationMemory(tmp_path / "memory.sqlite3")
    advice = Experience("advice", "avoid", "a text", rewrite="advice", helpful=False)
    memory.add(advice)
    lessons = Lessons(memory, run="r", initial=[advice])
    await search(quick(iterations=1), walker=Walker(steps=steps), lessons=lessons)
    counted = memory.get("advice")
    assert (counted.wins, counted.losses) == ((1, 0) if came_true else (0, 1))
    memory.close()


# -- what goes wrong outside -------------------------------------------------------------


async def test_a_full_disk_ends_no_search_and_damages_nothing(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs.sqlite3")
    run = begin(store)
    with store._database.read() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 4}")
    result = await search(quick(), store=store, run=run)
    assert outcome(result) == outcome(await search(quick()))
    (note,) = store.notes
    assert "full" in note
    assert "not all of this run is recorded" in note
    with store._database.read() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    kept = store.evaluation_count(run)
    again = FakeProfiler()
    assert outcome(await search(quick(), again, store=store, run=run)) == outcome(result)
    assert len(again.calls) == result.evaluations - kept
    store.close()


async def test_a_run_that_is_removed_meanwhile_goes_on(store: RunStore) -> None:
    run = begin(store)
    store.delete(run)
    result = await search(quick(iterations=1), store=store, run=run)
    assert result.verified
    assert "was removed" in store.notes[0]


async def test_a_locked_store_ends_no_search(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    store = RunStore(path, busy_seconds=0.01)
    run = begin(store)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert (await search(quick(iterations=1), store=store, run=run)).verified
    other.execute("ROLLBACK")
    other.close()
    assert "locked by another process" in store.notes[0]
    store.close()


def test_what_a_run_without_memory_learned_is_never_given_to_it(store: RunStore) -> None:
    run = begin(store)
    lessons = Lessons(store=store, run=run, remember=False)
    asyncio.run(search(quick(), store=store, run=run, lessons=lessons))
    assert store.export(run)["experiences"]
    assert store.pending_experiences() == []


def test_runs_whose_process_is_gone_are_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    script = """
        import sys, time
        from pathlib import Path
        from accelopt_lsp.agents.store import RunStore
        from tests.agents.test_store import begin
        begin(RunStore(Path(sys.argv[1])))
        print("begun", flush=True)
        time.sleep(600)
    """
    process = start(script, str(path))
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    store = RunStore(path)
    assert store.load("run").status == "running"
    assert store.load("run").at_work_elsewhere
    process.kill()
    process.communicate()
    assert store.load("run").status == "interrupted"
    assert not store.load("run").at_work_elsewhere
    store.reopen("run")
    assert store.load("run").status == "running"
    assert not store.load("run").at_work_elsewhere
    store.close()


@pytest.mark.parametrize(
    ("process", "alive"),
    [(None, None), ("", None), ("elsewhere/1/2", None), ("nonsense", None), ("a/b/c/d", None)],
)
def test_what_cannot_be_told_of_a_process_is_unknown(process: str | None, alive: None) -> None:
    assert is_alive(process) is alive


def test_numbers_of_processes_are_used_again() -> None:
    host, number, started = this_process().split("/")
    assert is_alive(f"{host}/{number}/{started}") is True
    assert is_alive(f"{host}/{number}/1{started}") is False
