"""The use case ``optimize`` on the fake landscape: report, resume, memory, changed texts."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
from attrs import evolve

from accelopt_lsp.agents.memory import OptimizationMemory
from accelopt_lsp.agents.roles import Usage
from accelopt_lsp.agents.search import SearchSettings
from accelopt_lsp.agents.store import RunStore
from accelopt_lsp.nki.arguments import parse_spec
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Job, Outcome, Progress
from accelopt_lsp.workbench.optimize import (
    OptimizeReport,
    OptimizeRequest,
    optimize_kernel,
    recheck,
    refit,
    stale,
)
from accelopt_lsp.workbench.requests import KernelRequest, RequestError, write_source
from tests.agents.landscape import TEXT, FakeProfiler, Walker, latency, point, quick, roles

pytestmark = pytest.mark.usefixtures("data_dir")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.py"
    path.write_text(TEXT)
    return path


def request(file: Path, **changes: object) -> OptimizeRequest:
    kernel = KernelRequest(file, arguments={"x": parse_spec("f32[128,512]")})
    made = OptimizeRequest(kernel, quick())
    return evolve(made, **changes)  # type: ignore[arg-type]


async def optimize(
    file: Path,
    profiler: FakeProfiler | None = None,
    walker: Walker | None = None,
    **changes: object,
) -> OptimizeReport:
    return await optimize_kernel(
        request(file, **changes), roles=roles(walker), profiler=profiler or FakeProfiler()
    )


async def test_the_report_holds_together(file: Path) -> None:
    report = await optimize(file)
    assert report.new_text is not None
    assert report.correct is True
    assert report.speedup == pytest.approx(latency(1, 1) / latency(*point(report.new_text)))
    assert report.strategies[0].before_ms == latency(1, 1)
    assert report.strategies[-1].after_ms == latency(*point(report.new_text))
    for first, second in zip(report.strategies, report.strategies[1:], strict=False):
        assert first.after_ms == second.before_ms
    assert report.usage == Usage(1, 10, 0.5)
    data = json.loads(json.dumps(report.to_json()))
    assert {
        "schema_version",
        "run",
        "baseline",
        "best",
        "speedup",
        "correct",
        "diff",
        "evaluations",
        "strategies",
        "tokens",
        "cost_usd",
    } <= data.keys()
    assert (data["tokens"], data["cost_usd"]) == (10, 0.5)


def test_the_diff_can_be_applied(file: Path, tmp_path: Path) -> None:
    report = asyncio.run(optimize(file))
    patch = tmp_path / "change.diff"
    patch.write_text(report.diff)
    subprocess.run(["git", "apply", str(patch)], cwd=tmp_path, check=True)
    assert file.read_text() == report.new_text


async def test_nothing_faster_is_no_change(file: Path) -> None:
    report = await optimize(file, walker=Walker(steps=((-1, 0),)))
    assert not report.improved
    assert (report.new_text, report.diff, report.speedup) == (None, "", 1.0)
    assert report.best == report.baseline


async def test_a_baseline_that_fails_is_reported_not_raised(file: Path) -> None:
    report = await optimize(file, FakeProfiler(fails=frozenset({(1, 1)})))
    assert report.failure is not None
    assert report.to_json()["error"]["line"] == 8
    assert report.baseline is None
    with_runs = RunStore()
    assert with_runs.load(report.run or "").status == "failed"
    with_runs.close()


async def test_a_wrong_baseline_is_not_made_faster(file: Path) -> None:
    reference = file.with_name("other.py")
    reference.write_text("def forward(x): return x\n")
    kernel = evolve(request(file).kernel, reference=reference)
    profiler = FakeProfiler(wrong=frozenset({(1, 1)}))
    report = await optimize(file, profiler, kernel=kernel)
    assert (report.improved, report.correct) == (False, False)
    assert len(profiler.calls) == 1


async def test_unknown_costs_give_no_total(file: Path) -> None:
    class Unknown(FakeProfiler):
        async def profile(self, job: Job, progress: Progress | None = None) -> Outcome:
            found = await super().profile(job)
            assert isinstance(found, Profile)
            return evolve(found, latency_ms=None, unknown_instructions=("mystery",))

    report = await optimize(file, Unknown())
    assert not report.improved
    assert any("mystery" in note for note in report.notes)


async def test_what_ifs_are_computed_for_the_baseline_only(file: Path) -> None:
    asked: list[bool] = []

    class Asked(FakeProfiler):
        async def profile(self, job: Job, progress: Progress | None = None) -> Outcome:
            asked.append(job.what_ifs)
            return await super().profile(job)

    await optimize(file, Asked())
    assert asked[0]
    assert len(asked) > 1
    assert not any(asked[1:])


async def test_small_gains_are_called_uncertain(file: Path) -> None:
    report = await optimize(file, walker=Walker(steps=((0, 1),)), search=quick(iterations=1))
    assert report.speedup == pytest.approx(3.1 / 2.9)
    assert not any("cannot tell apart" in note for note in report.notes)
    file.write_text(TEXT.replace("A = 1", "A = -9"))
    report = await optimize(file, walker=Walker(steps=((0, 1),)), search=quick(iterations=1))
    assert report.speedup is not None
    assert 1 < report.speedup < 1.05
    assert any("cannot tell apart" in note for note in report.notes)


async def test_the_memory_is_filled_and_drawn_on(file: Path) -> None:
    first, second = Walker(), Walker()
    await optimize(file, walker=first)
    memory = OptimizationMemory()
    assert len(memory) > 0
    memory.close()
    assert first.seen_experiences[0] == ()
    report = await optimize(file, walker=second)
    assert second.seen_experiences[0] != ()
    assert any(step.experiences for step in report.strategies)
    third = Walker()
    await optimize(file, walker=third, use_memory=False, search=quick(iterations=1))
    assert third.seen_experiences == [()]


async def test_a_damaged_memory_does_not_stop_the_work(file: Path, data_dir: Path) -> None:
    (data_dir / "memory.sqlite3").write_bytes(b"garbage" * 1000)
    report = await optimize(file)
    assert report.improved
    assert any("moved to" in note for note in report.notes)
    assert list(data_dir.glob("memory.sqlite3.corrupt-*"))


async def test_a_cancelled_run_can_be_resumed(file: Path) -> None:
    whole = await optimize(file, use_memory=False)
    held = FakeProfiler(hold_after=9)
    task = asyncio.create_task(optimize(file, held, use_memory=False))
    await held.held.acquire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    store = RunStore()
    (record,) = [r for r in store.runs() if r.status == "cancelled"]
    assert store.evaluation_count(record.id) == 9
    assert record.baseline_ms == pytest.approx(whole.baseline.latency_ms)
    file.write_text("changed meanwhile, which does not matter\n")
    again = FakeProfiler()
    resumed = await optimize(
        file, again, use_memory=False, resume=record.id[:18], search=SearchSettings()
    )
    assert resumed.run == record.id
    assert resumed.new_text == whole.new_text
    assert resumed.evaluations == whole.evaluations
    assert len(again.calls) == whole.evaluations - 9
    assert store.load(record.id).status == "finished"
    store.close()


@pytest.mark.parametrize("way", ["resume", "replay"])
async def test_a_run_of_another_kernel_is_refused(file: Path, tmp_path: Path, way: str) -> None:
    report = await optimize(file, use_memory=False)
    other = tmp_path / "other.py"
    other.write_text(TEXT)
    for kernel in (KernelRequest(other), KernelRequest(file, function="another")):
        with pytest.raises(RequestError, match=r"is about .*kernel\.py::kernel; name that"):
            await optimize(file, kernel=kernel, **{way: report.run})


def test_a_file_that_changed_meanwhile_is_not_written_over(file: Path) -> None:
    file.write_text("edited\n")
    with pytest.raises(RequestError, match="changed meanwhile and is left alone"):
        write_source(file, "new\n", like=file, over="old\n")
    assert file.read_text() == "edited\n"
    write_source(file, "new\n", like=file, over="edited\n")
    write_source(file, "new\n", like=file, over="edited\n")
    assert file.read_text() == "new\n"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resume": "nothing"}, "no run"),
        ({"kernel": KernelRequest(Path("missing.py"))}, "no such file"),
    ],
)
async def test_impossible_requests_say_why(
    file: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        await optimize(file, **changes)


async def test_unknown_agents_are_refused(file: Path) -> None:
    with pytest.raises(RequestError, match="magic"):
        await optimize_kernel(request(file, agents="magic"), profiler=FakeProfiler())


# -- a text that changed meanwhile -----------------------------------------------------


async def test_a_result_moves_with_its_kernel(file: Path) -> None:
    report = await optimize(file)
    assert not stale(report, TEXT)
    assert refit(report, TEXT) == report.new_text
    assert await recheck(report, TEXT) is report
    moved = "# a new line\n" + TEXT + "\n\ndef more():\n    pass\n"
    assert stale(report, moved)
    text = refit(report, moved)
    assert text is not None
    assert text.startswith("# a new line\n")
    assert text.endswith("def more():\n    pass\n")
    assert point(text) == point(report.new_text or "")
    profiler = FakeProfiler()
    again = await recheck(report, moved, profiler=profiler)
    assert again is not None
    assert again.new_text == text
    assert again.kernel.text == moved
    assert [seeds for _, seeds in profiler.calls] == [(), (0,)]


async def test_the_best_so_far_is_told_and_can_be_verified_in_full(file: Path) -> None:
    told: list[OptimizeReport] = []
    final = await optimize_kernel(
        request(file), roles=roles(None), profiler=FakeProfiler(), improved=told.append
    )
    latencies = [r.best.latency_ms for r in told if r.best is not None]
    assert latencies == sorted(set(latencies), reverse=True)
    assert told[-1].new_text == final.new_text
    profiler = FakeProfiler()
    again = await recheck(told[-1], TEXT, profiler=profiler)
    assert again is not None
    assert again.new_text == final.new_text
    assert [seeds for _, seeds in profiler.calls] == [(), told[-1].seeds]
    assert told[-1].seeds[:5] == (0, 21, 42, 63, 84)
    wrong = FakeProfiler(wrong=frozenset({point(final.new_text or "")}))
    assert await recheck(told[-1], TEXT, profiler=wrong) is None


async def test_a_result_for_a_kernel_that_changed_is_dropped(file: Path) -> None:
    report = await optimize(file)
    changed = TEXT.replace("return x", "return x + 1")
    assert refit(report, changed) is None
    assert await recheck(report, changed, profiler=FakeProfiler()) is None
    assert refit(report, "") is None


async def test_a_result_that_no_longer_verifies_is_dropped(file: Path) -> None:
    report = await optimize(file)
    best = point(report.new_text or "")
    moved = "LIMIT = 3\n" + TEXT
    wrong = FakeProfiler(wrong=frozenset({best}))
    assert await recheck(report, moved, profiler=wrong) is None
    assert await recheck(report, moved, profiler=FakeProfiler(fails=frozenset({best}))) is None
