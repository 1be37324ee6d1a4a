"""Running kernels of these tests: in this process for values, as jobs for everything else."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from accelopt_lsp.nki.arguments import KernelArguments, parse_spec
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.base import Job, Limits, Outcome
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.profiler.simulator import kernels as running
from accelopt_lsp.profiler.simulator.launch import convert_input
from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.source import Sources

FOLDER = Path(__file__).parent

Runner = Callable[..., running.Outcome]


def run_file(
    path: Path,
    *inputs: Any,
    target: str = "trn1",
    full: bool = True,
    grid: Any = (),
    order: Any = None,
) -> running.Outcome:
    spec = importlib.util.spec_from_file_location(f"case_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        kernel = module.kernel
        session = Session(
            get_target(target),
            kernel.dialect,
            Sources(str(path)),
            full=full,
            names=OPERATOR_NAMES,
        )
        values = [convert_input(v) for v in inputs]
        return running.execute(kernel, values, {}, session, grid, order)
    finally:
        del sys.modules[spec.name]


def summary(outcome: running.Outcome) -> dict[str, Any]:
    """What a trace holds, short enough to read: instructions by line, and storages by line."""
    trace = outcome.session.trace
    lines: dict[str, int] = {}
    for number, regions in trace.records:
        template = trace.templates[number]
        shapes = ", ".join(
            f"{role}=[{r[2] - r[1]}x{r[4] - r[3]}B]"
            for (role, _), r in zip(template.issue.operands, regions, strict=True)
        )
        adds = " +=" if template.accumulates else ""
        key = f"{template.line}: {template.issue.op}@{template.issue.engine}{adds} {shapes}"
        lines[key] = lines.get(key, 0) + 1
    storages: dict[str, int] = {}
    for storage in trace.storages:
        outside = " external" if storage.external else ""
        key = (
            f"{storage.line}: {storage.name} {storage.buffer.value} "
            f"{storage.partitions}x{storage.partition_bytes}B{outside}"
        )
        storages[key] = storages.get(key, 0) + 1
    return {"instructions": lines, "storages": storages, "total": len(trace)}


def job(
    path: Path,
    specs: dict[str, str] | None = None,
    *,
    function: str = "kernel",
    target: str = "trn1",
    seconds: float = 30.0,
    memory: int = 6 << 30,
    **changes: Any,
) -> Job:
    """A job for ``kernel`` in a file."""
    values = {name: parse_spec(text) for name, text in (specs or {}).items()}
    source = changes.pop("source", None)
    return Job(
        path=path,
        source=path.read_text() if source is None else source,
        function=function,
        arguments=KernelArguments(values=values),
        target=target,
        limits=Limits(seconds=seconds, memory_bytes=memory),
        **changes,
    )


def profile(job: Job, progress: Any = None) -> Outcome:
    """Run a job to its end."""
    return asyncio.run(SimulatorProfiler().profile(job, progress))


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Standard normal float32 values."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
