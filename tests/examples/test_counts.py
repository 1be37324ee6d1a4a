"""Static analysis counts exactly what the simulator traces, over every example."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelopt_lsp.analysis import AnalysisOptions, analyze
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.profiler.base import Failure
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.workbench.profile import job_for
from accelopt_lsp.workbench.requests import KernelRequest, resolve_kernel

FOLDER = Path(__file__).resolve().parents[2] / "examples"
KERNELS = sorted(p for p in FOLDER.glob("*/*.py") if not p.stem.endswith("_reference"))


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: f"{p.parent.name}-{p.stem}")
async def test_static_counts_equal_traced_counts(path):
    kernel = resolve_kernel(KernelRequest(path))
    traced = await SimulatorProfiler().profile(job_for(kernel))
    assert not isinstance(traced, Failure), traced
    document = Document.parse(path.read_text("utf-8"))
    (analysis,) = analyze(document, path=path, options=AnalysisOptions()).kernels
    workload = analysis.workload
    assert workload is not None
    assert workload.complete, workload.unknowns
    assert analysis.target == traced.target
    for name in ("hbm_read_bytes", "hbm_write_bytes", "dma_descriptors"):
        assert getattr(workload.issued, name) == getattr(traced.issued, name), name
    assert workload.issued.matmul_flops == traced.issued.matmul_flops
    assert workload.issued.transpose_flops == traced.issued.transpose_flops
    assert dict(workload.issued.instructions) == dict(traced.issued.instructions)
    assert dict(workload.issued.elements) == dict(traced.issued.elements)
    assert workload.issued.engine_ns == pytest.approx(dict(traced.issued.engine_ns))
