"""The 14 kernels of NKIBench against their NumPy references, on the published five seeds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from report import Report, Row

from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.profiler.base import Failure, Job, Limits
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.profiler.simulator.signature import kernel_parameters

SEEDS = (0, 21, 42, 63, 84)


def run(checkout: Path, only: tuple[str, ...], seconds: float) -> Report:
    """One row a kernel; ``passed`` counts seeds."""
    return asyncio.run(_run(checkout, only, seconds))


async def _run(checkout: Path, only: tuple[str, ...], seconds: float) -> Report:
    root = checkout / "NKIBench"
    report = Report("NKIBench: verification on seeds " + ", ".join(map(str, SEEDS)))
    problems = json.loads((root / "summary.json").read_text("utf-8"))
    for name, problem in sorted(problems.items()):
        if only and name not in only:
            continue
        for case in problem["cases"].values():
            for entry in case["impls"]:
                kernel, reference = root / entry["kernel"], root / entry["task"]
                source = kernel.read_text("utf-8")
                row = await _verify(name, kernel, source, reference, seconds)
                report.rows.append(row)
    return report


async def _verify(name: str, kernel: Path, source: str, reference: Path, seconds: float) -> Row:
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
    outcome = await SimulatorProfiler().profile(job)
    if isinstance(outcome, Failure):
        return Row(name, failed=len(SEEDS), reasons=(outcome.message[:160],))
    note = f"largest relative error {outcome.max_relative_error:.1e}"
    if not outcome.correct:
        return Row(name, failed=len(SEEDS), reasons=(note,))
    return Row(name, passed=len(SEEDS), reasons=(note,))
