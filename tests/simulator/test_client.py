"""Jobs as a whole: references, baselines, caches, progress, cancelling."""

from __future__ import annotations

import asyncio
import json
import os
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from accelopt_lsp.nki.arguments import KernelArguments, parse_spec
from accelopt_lsp.nki.profile import Profile, Provenance
from accelopt_lsp.profiler.base import Failure, FailureKind, Job
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.profiler.simulator.process import bare_environment
from tests.simulator.helpers import FOLDER, job, profile

SILU = FOLDER / "kernels" / "legacy" / "silu.py"
SPECS = {"x": "f32[2,128,512]"}
REFERENCE = """
import numpy as np


def get_inputs():
    return [np.random.normal(size=(256, 512)).astype(np.float32)]


def forward(x):
    return x / (1 + np.exp(-x))


def transform_to_nki_inputs(inputs):
    return [inputs[0].reshape(2, 128, 512)]


def transform_nki_outputs(result, reference):
    assert reference.shape == (256, 512)
    return result.reshape(256, 512)
"""


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    path = tmp_path / "reference.py"
    path.write_text(REFERENCE)
    return path


def _profile(job: Job, progress: Any = None) -> Profile:
    outcome = profile(job, progress)
    assert isinstance(outcome, Profile), outcome
    return outcome


def test_a_reference_makes_inputs_and_judges(reference: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    seen: list[str] = []
    found = _profile(
        job(SILU, reference=reference, seeds=(0, 21), cache=cache),
        lambda message, share: seen.append(message),
    )
    assert found.provenance is Provenance.SIMULATED
    assert found.correct is True
    assert found.reference == "file"
    assert found.max_relative_error is not None
    assert 0 < found.max_relative_error < 1e-6
    assert found.latency_ms is not None
    assert found.issued.instructions == {
        "memset": 1,
        "dma_copy": 4,
        "activation": 2,
        "tensor_scalar": 2,
        "reciprocal": 2,
        "tensor_tensor": 2,
    }
    assert "running with seed 21" in seen
    stored = sorted(cache.glob("expected-*.npy"))
    assert len(stored) == 2
    # Expected outputs come from the cache the second time, so changing them shows.
    import numpy as np

    for file in stored:
        np.save(file, np.zeros((256, 512), np.float32))
    again = _profile(job(SILU, reference=reference, seeds=(0,), cache=cache))
    assert again.correct is False


def test_shapes_come_from_the_reference_when_nothing_else_tells(reference: Path) -> None:
    found = _profile(job(SILU, reference=reference))
    assert found.correct is None
    assert found.issued.instructions["dma_copy"] == 4


def test_without_values_only_shapes_are_traced() -> None:
    found = _profile(job(SILU, SPECS))
    assert found.correct is None
    assert found.issued.hbm_read_bytes == 2 * 128 * 512 * 4


def test_an_explicit_argument_must_fit_the_reference(reference: Path) -> None:
    found = profile(job(SILU, {"x": "f32[4,128,512]"}, reference=reference, seeds=(0,)))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.ARGUMENTS


def test_rtol_of_the_reference_wins(tmp_path: Path, reference: Path) -> None:
    strict = tmp_path / "strict.py"
    strict.write_text(REFERENCE + "\nrtol = 1e-12\n")
    assert _profile(job(SILU, reference=strict, seeds=(0,))).correct is False


def test_the_baseline_stands_in_for_a_reference(tmp_path: Path) -> None:
    text = SILU.read_text()
    same = _profile(job(SILU, SPECS, baseline=text, seeds=(0,)))
    assert (same.correct, same.reference, same.max_relative_error) == (True, "baseline", 0.0)
    wrong = text.replace("scale=-1.0", "scale=-2.0")
    cache = tmp_path / "cache"
    for _ in range(2):
        found = _profile(job(SILU, SPECS, source=wrong, baseline=text, seeds=(0,), cache=cache))
        assert found.correct is False
        assert "seed 0" in found.notes[0]


def test_a_broken_reference_says_so(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def forward(x):\n    return x @ x\n")
    found = profile(job(SILU, SPECS, reference=broken, seeds=(0,)))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.REFERENCE
    assert "forward of broken.py failed" in found.message


def test_a_timeline_is_written(tmp_path: Path) -> None:
    place = tmp_path / "made" / "timeline.json"
    _profile(job(SILU, SPECS, timeline=place))
    assert json.loads(place.read_text())["traceEvents"]


def test_helper_modules_of_the_project_are_found(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(
        "import neuronxcc.nki.language as nl\n\n\ndef twice(tile):\n    return nl.add(tile, tile)\n"
    )
    path = tmp_path / "main.py"
    path.write_text(
        textwrap.dedent("""
        import neuronxcc.nki as nki
        import neuronxcc.nki.language as nl
        from helper import twice


        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, twice(nl.load(x)))
            return out
        """)
    )
    found = _profile(job(path, {"x": "f32[128,64]"}))
    # Work of a helper in another file counts on the line that called it.
    assert {line.line for line in found.lines} == {10}


def test_methods_and_meta_parameters(tmp_path: Path) -> None:
    path = tmp_path / "case.py"
    path.write_text(
        textwrap.dedent("""
        import nki
        import nki.language as nl


        class Kernels:
            @nki.jit
            def scale(self, x, factor, dtype=None, *, repeat=1):
                out = nl.ndarray(x.shape, dtype=dtype or x.dtype, buffer=nl.shared_hbm)
                for _ in range(repeat):
                    nl.store(out, nl.multiply(nl.load(x), factor, dtype=dtype))
                return out
        """)
    )
    specs = {"x": "f32[128,64]", "factor": "2.5", "dtype": "bf16", "repeat": "3"}
    found = _profile(job(path, specs, function="Kernels.scale", target="trn2"))
    assert found.issued.instructions["dma_copy"] == 6
    assert found.issued.hbm_write_bytes == 3 * 128 * 64 * 2


def test_a_grid_reaches_the_kernel(tmp_path: Path) -> None:
    path = tmp_path / "case.py"
    path.write_text(
        textwrap.dedent("""
        import neuronxcc.nki as nki
        import neuronxcc.nki.language as nl


        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            rows = nl.ds(nl.program_id(0) * 128, 128)
            nl.store(out[rows], nl.exp(nl.load(x[rows])))
            return out
        """)
    )
    arguments = KernelArguments(values={"x": parse_spec("f32[256,64]")}, grid=(2,))
    found = _profile(Job(path, path.read_text(), "kernel", arguments, "trn1"))
    assert found.issued.instructions["dma_copy"] == 4


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("seeds", [(), (0, 21)])
async def test_cancelling_kills_the_process_groups(seeds: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "endless.py"
    path.write_text("import nki\n\n\n@nki.jit\ndef kernel(x):\n    while True:\n        pass\n")
    profiler = SimulatorProfiler(lanes=2)
    endless = job(path, {"x": "f32[128,64]"}, seeds=seeds)
    started = asyncio.Event()

    def progress(message: str, share: float | None) -> None:
        if message == "tracing":
            started.set()

    groups: list[int] = []
    before = asyncio.create_subprocess_exec

    async def spawn(*args: Any, **kwargs: Any) -> Any:
        process = await before(*args, **kwargs)
        groups.append(process.pid)
        return process

    asyncio.create_subprocess_exec = spawn  # type: ignore[assignment]
    try:
        task = asyncio.create_task(profiler.profile(endless, progress))
        await asyncio.wait_for(started.wait(), 60)
        assert all(_alive(g) for g in groups)
        moment = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ended = time.monotonic() - moment
    finally:
        asyncio.create_subprocess_exec = before
    assert len(groups) == (4 if seeds else 1)
    assert not any(_alive(g) for g in groups)
    assert ended < 30


async def test_jobs_run_side_by_side() -> None:
    profiler = SimulatorProfiler()
    found = await asyncio.gather(*(profiler.profile(job(SILU, SPECS)) for _ in range(2)))
    assert found[0] == found[1]


def test_children_get_a_bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    assert not {"OPENAI_API_KEY", "HTTPS_PROXY"} & set(bare_environment(tmp_path))
