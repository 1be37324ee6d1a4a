"""The whole loop on the simulator: catalogue, search, verification, memory."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from accelopt_lsp.agents.memory import OptimizationMemory
from accelopt_lsp.agents.search import SearchEvent, SearchSettings
from accelopt_lsp.agents.store import RunStore
from accelopt_lsp.nki.arguments import parse_spec
from accelopt_lsp.workbench.optimize import OptimizeRequest, optimize_kernel
from accelopt_lsp.workbench.requests import KernelRequest

pytestmark = [pytest.mark.usefixtures("data_dir"), pytest.mark.slow]
SMALL = SearchSettings(beam=1, plans=3, iterations=1, top_k=2)


def request(examples: Path, folder: Path, dialect: str) -> OptimizeRequest:
    """A product without its reference file, which makes inputs of a size of its own."""
    file = folder / "matmul.py"
    file.write_text((examples / dialect / "matmul.py").read_text())
    specs = {"lhsT": "bf16[2048,1024]", "rhs": "bf16[2048,2048]"}
    arguments = {name: parse_spec(spec) for name, spec in specs.items()}
    return OptimizeRequest(KernelRequest(file, arguments=arguments), SMALL)


@pytest.mark.parametrize("dialect", ["legacy", "current"])
async def test_a_matrix_product_becomes_faster_and_stays_right(
    examples: Path, tmp_path: Path, dialect: str
) -> None:
    events: list[SearchEvent] = []
    report = await optimize_kernel(request(examples, tmp_path, dialect), events.append)
    assert report.failure is None
    assert report.correct is True
    assert report.speedup is not None
    assert report.speedup > 1.04
    assert report.best is not None
    assert report.best.correct is True
    assert report.strategies[0].plan.rewrite is not None
    assert report.diff
    assert events
    memory = OptimizationMemory()
    learned = memory.list()
    memory.close()
    assert learned
    assert {e.tags.dialect for e in learned} == {dialect}


def children() -> set[int]:
    """Processes of which this one is the parent."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid() and fields[0] != "Z":
                found.add(int(entry.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
async def test_cancelling_leaves_no_process_and_can_be_resumed(
    examples: Path, tmp_path: Path
) -> None:
    before = children()
    asked = request(examples, tmp_path, "legacy")
    begun = asyncio.Event()
    task = asyncio.create_task(optimize_kernel(asked, lambda event: begun.set()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() <= before
    store = RunStore()
    (record,) = store.runs()
    assert record.status == "cancelled"
    kept = store.evaluation_count(record.id)
    assert kept >= 1
    resumed = await optimize_kernel(OptimizeRequest(asked.kernel, SMALL, resume=record.id))
    assert resumed.run == record.id
    assert resumed.improved
    assert store.evaluation_count(record.id) == resumed.evaluations > kept
    store.close()
