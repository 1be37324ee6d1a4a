"""Kernels that get better step by step lose the findings that each step is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.diagnostics import Severity

FOLDER = Path(__file__).parent / "steps"
STEPS = {
    "matmul_1_tiled": {("P01", "a_t"), ("P01", "b")},
    "matmul_2_hoisted": {("P01", "b"), ("P10", "a_t")},
    "matmul_3_blocked": set(),
    "scan_1_states_outside": {("P01", "delta"), ("P01", "u")},
    "scan_2_states_inside": set(),
    "scan_3_long_rows": {("P02", "total")},
    "scan_4_parts_of_rows": set(),
}
"""What each version is told: code and the tensor that it is about, hints left out."""
SLOWER = [
    ("matmul_1_tiled", "matmul_2_hoisted"),
    ("matmul_2_hoisted", "matmul_3_blocked"),
]


def analysed(name):
    path = FOLDER / f"{name}.py"
    text = path.read_text("utf-8")
    (kernel,) = analyze(Document.parse(text), path=path).kernels
    return kernel, text.splitlines()


def test_every_step_is_listed():
    assert {p.stem for p in FOLDER.glob("*.py")} == set(STEPS)


@pytest.mark.parametrize("name", STEPS)
def test_a_step_keeps_the_findings_of_its_version(name):
    kernel, lines = analysed(name)
    assert kernel.workload.complete
    told = {
        (d.code, lines[d.span.start.line - 1])
        for d in kernel.diagnostics
        if d.severity is not Severity.HINT
    }
    assert {code for code, _ in told} == {code for code, _ in STEPS[name]}, kernel.diagnostics
    for code, tensor in STEPS[name]:
        assert any(code == c and tensor in line for c, line in told), (code, tensor)
    assert len(told) == len(STEPS[name])


@pytest.mark.parametrize(("slow", "fast"), SLOWER)
def test_a_later_version_is_estimated_to_be_faster(slow, fast):
    assert analysed(fast)[0].profile.latency_ms < analysed(slow)[0].profile.latency_ms
