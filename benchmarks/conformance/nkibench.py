"""The 14 kernels of NKIBench against their NumPy references, on the published five seeds."""

from __future__ import annotations

import asyncio
import json
import time
from argparse import Namespace
from pathlib import Path

from table import Row

from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.profiler.base import Failure, Job, Limits
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.profiler.simulator.signature import kernel_parameters

SEEDS = (0, 21, 42, 63, 84)


def run(checkout: Path, options: Namespace) -> list[Row]:
    """One row a kernel."""
    return asyncio.run(_run(checkout, options))


async def _run(checkout: Path, options: Namespace) -> list[Row]:
    root = checkout / "NKIBench"
    rows = []
    problems = json.loads((root / "summary.json").read_text("utf-8"))
    for name, problem in sorted(problems.items()):
        if options.only not in name:
            continue
        for case in problem["cases"].values():
            for entry in case["impls"]:
                kernel, reference = root / entry["kernel"], root / entry["task"]
                rows.append(await _verify(name, kernel, reference, options.seconds))
    return rows


async def _verify(name: str, kernel: Path, reference: Path, seconds: int) -> Row:
    source = await asyncio.to_thread(kernel.read_text, "utf-8")
    missing = tuple(p.name for p in kernel_parameters(source, "kernel") if p.required)
    job = Job(
        path=kernel,
        source=source,
        function="kernel",
        arguments=KernelArguments(
            values={}, target="trn1", reference=str(reference), missing=missing
        ),
        target="trn1",
        reference=reference,
        seeds=SEEDS,
        limits=Limits(seconds=seconds),
    )
    start = time.perf_counter()
    outcome = await SimulatorProfiler().profile(job)
    took = round(time.perf_counter() - start, 1)
    if isinstance(outcome, Failure):
        return Row(kernel.name, name, "fail", outcome.message, took)
    why = f"largest relative error {outcome.max_relative_error:.1e} on {len(SEEDS)} seeds"
    return Row(kernel.name, name, "pass" if outcome.correct else "fail", why, took)
