"""What analysis could not know is filled in from a traced run, and says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from accelopt_lsp.analysis import KernelAnalysis, analyze
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.profile import Profile, Provenance
from accelopt_lsp.server.snapshot import KernelView, Request
from accelopt_lsp.server.worker import check
from accelopt_lsp.workbench.filling import filled, known_trace, traced
from accelopt_lsp.workbench.settings import settings_for

KERNEL = Path(__file__).parent / "kernels" / "partly_known.py"
TEXT = KERNEL.read_text("utf-8")
LOOP, LOAD, INNER, COMPUTE = 13, 15, 16, 18


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACCELOPT_CACHE_DIR", str(tmp_path))


def analysed(text: str = TEXT) -> KernelAnalysis:
    (kernel,) = analyze(Document.parse(text), path=KERNEL).kernels
    return kernel


def run(text: str = TEXT) -> Profile:
    report = asyncio.run(traced(KERNEL, text, "kernel", settings_for(KERNEL, {})))
    assert report.profile is not None, report.failure
    return report.profile


def test_a_trace_fills_in_what_analysis_does_not_know() -> None:
    before = analysed()
    assert before.workload is not None
    assert not before.workload.complete
    after = filled(before, run())
    work = after.workload
    assert work is not None
    assert work.complete
    assert work.resolved == before.workload.unknowns
    assert work.provenance is Provenance.SIMULATED
    loops = {loop.line: (loop.trips, loop.total_trips) for loop in work.loops}
    assert loops == {LOOP: (16, 16), INNER: (4, 64)}
    lines = {line.line: line for line in work.lines}
    assert lines[LOAD].issued.hbm_read_bytes == 16 * 128 * 512 * 4
    assert lines[LOAD].count == 16
    assert lines[COMPUTE].issued.instructions == {"activation": 64}
    assert lines[COMPUTE].provenance is Provenance.SIMULATED
    assert work.traffic.routes == {"hbm->sbuf": 4 << 20, "sbuf->hbm": 4 << 20}
    assert after.profile is not None
    assert after.profile.provenance is Provenance.SIMULATED
    hints = {hint.line: hint for hint in after.hints if hint.kind in ("loop", "compute")}
    assert hints[LOOP].text == "16 trips"
    assert hints[LOOP].detail.startswith("Traced")
    assert hints[COMPUTE].detail.endswith("Counted in a traced run.")


def test_counted_lines_keep_their_figures() -> None:
    whole = analysed(TEXT.replace('sorted(dir(math)).index("isqrt") * 0 + 16', "16"))
    assert whole.workload is not None
    assert whole.workload.complete
    after = filled(whole, run(TEXT))
    assert after.workload == whole.workload
    assert after.profile is not None
    assert after.profile.provenance is Provenance.SIMULATED


def test_traced_counts_of_lines_are_those_of_analysis() -> None:
    text = TEXT.replace('sorted(dir(math)).index("isqrt") * 0 + 16', "16")
    work = analysed(text).workload
    assert work is not None
    rows = run(text).issued_lines
    assert rows is not None
    assert {row.line: dict(row.issued.instructions) for row in rows} == {
        line.line: dict(line.issued.instructions) for line in work.lines
    }
    assert {row.line: dict(row.routes) for row in rows} == {
        line.line: dict(line.traffic.routes) for line in work.lines
    }


def test_nothing_is_filled_in_for_another_text() -> None:
    run()
    settings = settings_for(KERNEL, {})
    assert known_trace(analysed(), KERNEL, TEXT, settings) is not None
    changed = TEXT.replace("nl.exp", "nl.tanh")
    assert known_trace(analysed(changed), KERNEL, changed, settings) is None


def view(text: str = TEXT) -> KernelView:
    return check(Request(path=str(KERNEL), text=text)).kernels[0]


def test_the_worker_shows_what_an_earlier_run_knows() -> None:
    before = view()
    assert before.workload is not None
    assert not before.workload.complete
    run()
    after = view()
    assert after.workload is not None
    assert after.workload.complete
    assert any(hint.text == "16 trips" for hint in after.hints)
