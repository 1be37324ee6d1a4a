"""Seeds of a job are verified side by side, with the outcome that one after the other has."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import VERIFICATION_SEEDS, Failure, FailureKind, Job, Outcome
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.profiler.simulator import profiler as profiling
from tests.simulator.helpers import FOLDER, job

SILU = FOLDER / "kernels" / "legacy" / "silu.py"
SHAPE = (2, 128, 512)
REFERENCE = """
import numpy as np


def get_inputs():
    return [np.random.normal(size=(2, 128, 512)).astype(np.float32)]


def forward(x):
    wrong = x[0, 0, 0] in {wrong}
    return x / (1 + np.exp(-x)) + wrong
"""


def _job(tmp_path: Path, wrong: tuple[int, ...] = (), **changes: Any) -> Job:
    """A job whose reference is wrong on these seeds."""
    firsts = []
    for seed in wrong:
        np.random.seed(seed)
        firsts.append(float(np.random.normal(size=SHAPE).astype(np.float32)[0, 0, 0]))
    reference = tmp_path / "reference.py"
    reference.write_text(REFERENCE.replace("{wrong}", repr(firsts)))
    return job(SILU, reference=reference, seeds=VERIFICATION_SEEDS, **changes)


def _run(lanes: int, job: Job, progress: Any = None) -> Outcome:
    return asyncio.run(SimulatorProfiler(lanes).profile(job, progress))


def test_lanes_find_what_one_finds(tmp_path: Path) -> None:
    seen: list[tuple[str, float | None]] = []
    found = [
        _run(lanes, _job(tmp_path), lambda message, share: seen.append((message, share)))
        for lanes in (1, 3)
    ]
    assert isinstance(found[0], Profile)
    assert found[0].correct is True
    assert found[0] == found[1]
    for seed in VERIFICATION_SEEDS:
        assert [m for m, _ in seen].count(f"running with seed {seed}") == 2
    shares = [share for _, share in seen if share is not None]
    assert shares and all(0 < share < 1 for share in shares)


@pytest.mark.parametrize("lanes", [1, 2, 5])
@pytest.mark.parametrize("seed", [0, 21, 84])
def test_one_wrong_seed_is_named(lanes: int, seed: int, tmp_path: Path) -> None:
    found = _run(lanes, _job(tmp_path, wrong=(seed,)))
    assert isinstance(found, Profile)
    assert found.correct is False
    assert found.notes[0].startswith(f"seed {seed}: the output is wrong")
    assert found.latency_ms is not None


def test_the_timeline_is_that_of_the_first_lane(tmp_path: Path) -> None:
    timeline = tmp_path / "timeline.json"
    assert isinstance(_run(2, _job(tmp_path, timeline=timeline)), Profile)
    assert timeline.stat().st_size > 100


def test_what_does_not_fit_side_by_side_runs_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = profiling._run
    shares: list[tuple[int, ...]] = []

    async def run(job: Job, *rest: Any) -> Any:
        shares.append(job.seeds)
        if len(job.seeds) < len(VERIFICATION_SEEDS):
            return Failure(FailureKind.MEMORY, "no memory left")
        return await real(job, *rest)

    monkeypatch.setattr(profiling, "_run", run)
    found = _run(2, _job(tmp_path))
    assert isinstance(found, Profile)
    assert found.correct is True
    assert shares[-1] == VERIFICATION_SEEDS
    assert len(shares) == 3


def test_a_failure_of_any_lane_is_that_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = profiling._run

    async def run(job: Job, progress: Any, lane: int) -> Any:
        if lane == 1:
            return Failure(FailureKind.CRASH, "the kernel's process ended")
        return await real(job, progress, lane)

    monkeypatch.setattr(profiling, "_run", run)
    assert _run(2, _job(tmp_path)) == Failure(FailureKind.CRASH, "the kernel's process ended")
