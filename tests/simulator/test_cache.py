"""The result cache: equal jobs yield equal profiles, changed ones are run, damage is harmless."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from accelopt_lsp.nki.arguments import KernelArguments, parse_spec
from accelopt_lsp.nki.profile import Profile, Provenance
from accelopt_lsp.profiler import cache, store
from accelopt_lsp.profiler.base import Job
from accelopt_lsp.profiler.cache import ResultCache, job_key
from accelopt_lsp.profiler.simulator import SimulatorProfiler

KERNEL = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
from helper import FACTOR

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.multiply(tile, FACTOR))
    return out
"""
REFERENCE = """
import numpy as np
from helper import FACTOR

def get_inputs():
    return [np.random.randn(128, 64).astype(np.float32)]

def forward(x):
    return x * FACTOR

def transform_to_nki_inputs(inputs):
    return inputs

def transform_nki_outputs(output, reference):
    return output
"""


@pytest.fixture
def results(tmp_path: Path) -> ResultCache:
    return ResultCache(tmp_path / "cache")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("")
    (folder / "helper.py").write_text("FACTOR = 2.0\n")
    (folder / "reference.py").write_text(REFERENCE)
    for file in folder.iterdir():
        os.utime(file, (1e9, 1e9))
    return Job(
        path=folder / "kernel.py",
        source=KERNEL,
        function="kernel",
        arguments=KernelArguments(values={"x": parse_spec("f32[128,64]")}),
        target="trn1",
    )


def run(job: Job, results: ResultCache | None) -> Profile:
    found = asyncio.run(SimulatorProfiler(1, results).profile(job))
    assert isinstance(found, Profile), found
    return found


def plain(latency_ms: float | None = 1.0) -> Profile:
    return Profile("kernel", "trn1", "simulator", Provenance.SIMULATED, latency_ms)


def test_a_hit_equals_a_miss(job, results):
    first, second, without = run(job, results), run(job, results), run(job, None)
    assert (first.cached, second.cached, without.cached) == (False, True, False)
    assert evolve(second, cached=False) == first == without
    assert second.to_json() == {**first.to_json(), "cached": True}


def test_a_verified_hit_equals_a_miss(job, results):
    verified = evolve(job, seeds=(0, 21), reference=job.path.parent / "reference.py")
    first, second = run(verified, results), run(verified, results)
    assert first.correct is True
    assert second.cached
    assert evolve(second, cached=False) == first


def test_what_the_kernel_imports_counts(job, results):
    run(job, results)
    helper = job.path.parent / "helper.py"
    helper.write_text("FACTOR = 3.0\n")
    os.utime(helper, (1e9, 1e9))
    assert not run(job, results).cached
    assert run(job, results).cached
    helper.touch()
    assert run(job, results).cached


def test_what_the_reference_reads_counts(job, results):
    verified = evolve(job, seeds=(0,), reference=job.path.parent / "reference.py")
    assert run(verified, results).correct is True
    other = REFERENCE.replace("x * FACTOR", "x * FACTOR + 0")
    verified.reference.write_text(other)
    os.utime(verified.reference, (1e9, 1e9))
    assert not run(verified, results).cached


def test_files_that_are_opened_and_arguments_in_files_count(job, results):
    folder = job.path.parent
    scale, values = folder / "scale.txt", folder / "x.npy"
    source = KERNEL.replace(
        "from helper import FACTOR",
        "from pathlib import Path\n"
        "FACTOR = float((Path(__file__).parent / 'scale.txt').read_text())",
    )
    arguments = KernelArguments(values={"x": parse_spec("@x.npy")})
    reading = evolve(job, source=source, arguments=arguments)
    for rows in (128, 64):
        np.save(values, np.zeros((rows, 64), np.float32))
        for factor in ("2.0", "3.0"):
            scale.write_text(factor)
            for file in (scale, values):
                os.utime(file, (1e9, 1e9))
            assert not run(reading, results).cached
            assert run(reading, results).cached


def test_a_file_that_changes_meanwhile_is_not_relied_on(job, results):
    helper = job.path.parent / "helper.py"
    os.utime(helper, (4e9, 4e9))
    run(job, results)
    assert not run(job, results).cached


def test_failures_and_wrong_outputs_are_run_again(job, results):
    reference = job.path.parent / "reference.py"
    reference.write_text(REFERENCE.replace("x * FACTOR", "x + 1"))
    os.utime(reference, (1e9, 1e9))
    wrong = evolve(job, seeds=(0,), reference=reference)
    assert run(wrong, results).correct is False
    assert not run(wrong, results).cached
    broken = evolve(job, source="import")
    assert asyncio.run(SimulatorProfiler(1, results).profile(broken)) is not None
    assert results.find(broken) is None


@pytest.mark.parametrize(
    "change",
    [
        {"source": KERNEL + "\n"},
        {"function": "other"},
        {"target": "trn2"},
        {"nki_version": "0.6"},
        {"seeds": (0,)},
        {"what_ifs": True},
        {"baseline": KERNEL},
        {"reference": Path("reference.py")},
        {"path": Path("elsewhere.py")},
        {"read_paths": (Path("more"),)},
        {"arguments": KernelArguments(values={"x": parse_spec("f32[128,65]")})},
        {"arguments": KernelArguments(values={"x": parse_spec("f32[128,64]")}, grid=(2,))},
    ],
    ids="+".join,
)
def test_whatever_a_job_is_told_is_part_of_its_key(job, change):
    assert job_key(evolve(job, **change)) != job_key(job)
    assert job_key(evolve(job)) == job_key(job)


def test_another_model_knows_nothing(job, results, monkeypatch):
    results.store(job, plain(), (), 0.0)
    assert results.find(job) is not None
    monkeypatch.setattr(cache, "model_version", lambda: "another")
    assert results.find(job) is None


def test_a_job_that_writes_a_timeline_is_run(job, results, tmp_path):
    run(job, results)
    timeline = tmp_path / "timeline.json"
    assert not run(evolve(job, timeline=timeline), results).cached
    assert timeline.is_file()


@pytest.mark.parametrize("damage", [b"", b"no database", b"\0" * 4096])
def test_a_damaged_file_is_replaced(job, results, damage):
    results.store(job, plain(), (), 0.0)
    for suffix in ("-wal", "-shm"):
        Path(f"{results.path}{suffix}").unlink(missing_ok=True)
    results.path.write_bytes(damage)
    assert results.find(job) is None
    results.store(job, plain(), (), 0.0)
    assert results.find(job) == plain() or results.find(job) == evolve(plain(), cached=True)


def test_a_file_damaged_in_the_middle_is_replaced(job, results):
    for number in range(200):
        results.store(evolve(job, function=f"f{number}"), plain(), (), 0.0)
    size = results.path.stat().st_size
    with results.path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * (size - 100))
    assert results.find(job) is None
    results.store(job, plain(), (), 0.0)
    assert results.find(job) is not None


def test_a_table_of_another_form_is_replaced(job, results):
    results.path.parent.mkdir()
    with sqlite3.connect(results.path) as database:
        database.execute("CREATE TABLE entries (other TEXT)")
    database.close()
    assert results.find(job) is None
    results.store(job, plain(), (), 0.0)
    assert results.find(job) is not None


@pytest.mark.parametrize("data", [b"", b"nonsense", json.dumps({"profile": 1}).encode()])
def test_a_damaged_entry_is_dropped(job, results, data):
    results.store(job, plain(), (), 0.0)
    with sqlite3.connect(results.path) as database:
        database.execute("UPDATE entries SET data = ?", (data,))
    database.close()
    assert results.find(job) is None
    results.store(job, plain(2.0), (), 0.0)
    assert results.find(job).latency_ms == 2.0


def test_a_folder_that_cannot_be_written_is_no_problem(job, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    results = ResultCache(blocked)
    results.store(job, plain(), (), 0.0)
    assert results.find(job) is None


def test_a_locked_file_is_no_problem_and_stays(job, results, monkeypatch):
    monkeypatch.setattr(store, "_BUSY_SECONDS", 0.05)
    results.store(job, plain(), (), 0.0)
    holder = sqlite3.connect(results.path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    other = evolve(job, function="other")
    results.store(other, plain(), (), 0.0)
    holder.execute("ROLLBACK")
    holder.close()
    assert results.find(other) is None
    assert results.find(job) is not None


def test_the_least_recently_used_go_first(job, tmp_path):
    results = ResultCache(tmp_path / "small", max_bytes=8_000)
    jobs = [evolve(job, function=f"f{n}") for n in range(40)]
    for each in jobs:
        results.store(each, plain(), (), 0.0)
        results.find(jobs[0])
    kept = [each for each in jobs if results.find(each) is not None]
    assert 0 < len(kept) < len(jobs)
    assert jobs[0] in kept
    assert jobs[-1] in kept
    assert jobs[1] not in kept


FILL = """
import sys
from pathlib import Path
from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.profile import Profile, Provenance
from accelopt_lsp.profiler.base import Job
from accelopt_lsp.profiler.cache import ResultCache

results = ResultCache(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), int(sys.argv[2]) + 25):
    job = Job(Path("kernel.py"), "", f"f{number}", KernelArguments(), "trn1")
    profile = Profile("kernel", "trn1", "simulator", Provenance.SIMULATED, number + 1.0)
    results.store(job, profile, (), 0.0)
    found = results.find(job)
    assert found is None or found.latency_ms == number + 1
"""


def test_processes_share_the_cache(results):
    folder = results.path.parent
    processes = [
        subprocess.Popen([sys.executable, "-c", FILL, str(folder), str(25 * n)], cwd=folder.parent)
        for n in range(3)
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    with sqlite3.connect(results.path) as database:
        assert database.execute("SELECT count(*) FROM entries").fetchone() == (75,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
