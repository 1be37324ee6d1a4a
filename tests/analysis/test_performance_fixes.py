"""Fixes of findings about time: they apply, the finding goes away, outputs stay what they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelopt_lsp.analysis import KernelAnalysis, analyze
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.diagnostics import Diagnostic
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Job
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.workbench.fixes import apply_fix

FOLDER = Path(__file__).parent / "cases"
NAMES = sorted(
    p.stem for p in FOLDER.glob("p*.py") if p.stem[1:3].isdigit() and not p.stem.endswith("_near")
)
APPLIES = {
    "p01_repeated_load": "hoist-load",
    "p05_short_instruction": "widen-tile",
    "p07_chain": "fuse-instructions",
    "p09_transposes": "hoist-transpose",
    "p10_small_transfer": "widen-tile",
    "p15_shared_port": "swap-engine",
    "p22_partition_broadcast": "hoist-invariant",
}
"""Cases whose finding a rewrite mends."""


def analysed(text: str) -> KernelAnalysis:
    (kernel,) = analyze(Document.parse(text)).kernels
    return kernel


def finding_of(kernel: KernelAnalysis, code: str) -> Diagnostic:
    return next(d for d in kernel.diagnostics if d.code == code)


def fixed(text: str, code: str) -> tuple[KernelAnalysis, str]:
    kernel = analysed(text)
    fix = finding_of(kernel, code).fix
    assert fix is not None
    return kernel, apply_fix(text, fix, arguments=kernel.arguments, target=kernel.target)


@pytest.mark.parametrize("name", APPLIES)
def test_the_fix_removes_the_finding(name):
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    code = name[:3].upper()
    kernel, changed = fixed(text, code)
    found = finding_of(kernel, code)
    assert found.fix is not None
    assert found.fix.rewrite == APPLIES[name]
    assert changed != text
    after = analysed(changed)
    assert after.profile is not None
    assert kernel.profile is not None
    count = sum(d.code == code for d in kernel.diagnostics)
    assert sum(d.code == code for d in after.diagnostics) < count
    assert after.profile.latency_ms <= kernel.profile.latency_ms


@pytest.mark.parametrize("name", NAMES)
def test_findings_that_name_a_fix_name_one_that_applies(name):
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    found = finding_of(analysed(text), name[:3].upper())
    assert (None if found.fix is None else found.fix.rewrite) == APPLIES.get(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", APPLIES)
async def test_the_fix_keeps_the_outputs(name, tmp_path):
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    kernel, changed = fixed(text, name[:3].upper())
    path = tmp_path / "kernel.py"
    path.write_text(text, "utf-8")
    outcome = await SimulatorProfiler().profile(
        Job(
            path=path,
            source=changed,
            function="kernel",
            arguments=kernel.arguments,
            target=kernel.target,
            seeds=(0,),
            baseline=text,
        )
    )
    assert isinstance(outcome, Profile), outcome
    assert outcome.correct
