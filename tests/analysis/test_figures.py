"""Workload, estimate and hints as goldens: one file a kernel, read them when they change."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.profile import Bound, Provenance

HERE = Path(__file__).parent
FILES = {
    "current_lists_of_tiles": HERE / "kernels" / "current_lists_of_tiles.py",
    "current_ragged_tiles": HERE / "kernels" / "current_ragged_tiles.py",
    "legacy_blocks": HERE / "kernels" / "legacy_blocks.py",
    "example_matmul": HERE.parents[1] / "examples" / "current" / "matmul.py",
    "example_rotary": HERE.parents[1] / "examples" / "legacy" / "rotary.py",
    "case_hoistable_load": HERE / "cases" / "hoistable_load.py",
}


def rounded(number):
    return None if number is None else float(f"{number:.4g}")


@pytest.mark.parametrize("name", FILES)
def test_figures(name, golden):
    path = FILES[name]
    found = analyze(Document.parse(path.read_text("utf-8")), path=path)
    (kernel,) = found.kernels
    work, profile = kernel.workload, kernel.profile
    assert work is not None
    assert profile is not None
    golden(
        {
            "target": kernel.target,
            "latency_ms": rounded(profile.latency_ms),
            "bound": profile.bound,
            "percent_of_peak": rounded(profile.percent_of_peak),
            "compulsory_read_bytes": work.compulsory_read_bytes,
            "compulsory_write_bytes": work.compulsory_write_bytes,
            "sbuf_peak_bytes": work.sbuf_peak_bytes,
            "psum_peak_bytes": work.psum_peak_bytes,
            "loops": [[v.line, v.variable, v.trips, v.total_trips] for v in work.loops],
            "hints": [f"{h.line} {h.kind}: {h.text}" for h in kernel.hints],
            "diagnostics": [
                {
                    "place": f"{d.span.start.line}:{d.span.start.column}",
                    "code": d.code,
                    "severity": d.severity,
                    "message": d.message,
                    "fix": dict(d.fix.parameters, rewrite=d.fix.rewrite) if d.fix else None,
                    "related": [f"{r.span.start.line}: {r.message}" for r in d.related],
                }
                for d in found.diagnostics
            ],
        },
        f"{name}.json",
    )


KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[1024,512]{more}
@nki.jit
def kernel(x{parameter}):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range({trips}):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        {body}
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=tile)
    return out
"""


def analyzed(more="", parameter="", trips="8", body="pass"):
    text = KERNEL.format(more=more, parameter=parameter, trips=trips, body=body)
    (kernel,) = analyze(Document.parse(text)).kernels
    assert kernel.workload is not None
    assert kernel.profile is not None
    return kernel


def test_estimates_are_marked_as_such():
    profile = analyzed().profile
    assert profile.provenance is Provenance.ESTIMATED
    assert profile.uncertainty.extrapolated
    assert profile.uncertainty.low_ms < profile.latency_ms < profile.uncertainty.high_ms
    assert profile.percent_of_peak_basis == "compulsory"
    assert profile.bound in (Bound.DMA, Bound.LATENCY)


@pytest.mark.parametrize(
    ("change", "reason", "line"),
    [
        ({"parameter": ", n", "trips": "n"}, "argument n is not known", 10),
        ({"body": "nisa.builtin_custom_op(tile)"}, "nisa.builtin_custom_op", 13),
        ({"body": "helper(tile)"}, "helper is not defined", 13),
        ({"parameter": ", n", "body": "if n: pass"}, "condition not known", 13),
    ],
)
def test_what_is_not_counted_is_said_and_gives_no_latency(change, reason, line):
    kernel = analyzed(**change)
    assert not kernel.workload.complete
    assert any(at == line and reason in why for at, why in kernel.workload.unknowns)
    assert kernel.profile.latency_ms is None
    assert kernel.profile.percent_of_peak is None
    assert kernel.profile.bound is None


def test_unknown_instructions_are_named_with_their_number():
    kernel = analyzed(body="nisa.builtin_custom_op(tile)")
    assert dict(kernel.workload.unknown_instructions) == {"nisa.builtin_custom_op": 8}
    assert kernel.profile.unknown_instructions == ("nisa.builtin_custom_op",)


def test_unknown_numbers_do_not_keep_work_from_being_counted():
    kernel = analyzed(
        parameter=", scale: float",
        body="nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)",
    )
    assert kernel.arguments.missing == ("scale",)
    assert kernel.workload.complete


def test_reload_factor_and_compulsory_bytes():
    kernel = analyzed(body="nisa.dma_copy(dst=tile, src=x[0:128, :])")
    factors = {line.line: line.reload_factor for line in kernel.workload.lines}
    assert factors[12] == 1.0
    assert factors[13] == 8.0
    assert kernel.workload.compulsory_read_bytes == 1024 * 512 * 4
    assert kernel.workload.compulsory_write_bytes == 1024 * 512 * 4


def test_peak_counts_tiles_that_a_list_keeps():
    text = KERNEL.format(more="", parameter="", trips="8", body="tiles.append(tile)")
    again = "    for tile in tiles:\n        nisa.memset(dst=tile, value=0.0)\n    return out"
    text = text.replace("    for i", "    tiles = []\n    for i").replace("    return out", again)
    (kept,) = analyze(Document.parse(text)).kernels
    assert kept.workload.sbuf_peak_bytes == 8 * 512 * 4
    assert analyzed().workload.sbuf_peak_bytes == 512 * 4


def test_loops_that_cannot_be_counted_are_shown_as_written():
    text = KERNEL.format(more="", parameter=", w", trips="w.shape[0] // 128", body="pass")
    (kernel,) = analyze(Document.parse(text)).kernels
    hints = {(h.line, h.kind): h.text for h in kernel.hints}
    assert hints[10, "loop"] == "w.shape[0] // 128 trips"
    (loop,) = kernel.workload.loops
    assert (loop.trips, loop.total_trips) == (None, None)
    assert kernel.workload.issued.total_instructions == 0


def test_what_runs_in_such_a_loop_is_shown_for_one_time():
    body = "nisa.activation(dst=tile, op=nl.exp, data=tile)"
    kernel = analyzed(parameter=", n", trips="n", body=body)
    hints = {(h.line, h.kind): h.text for h in kernel.hints}
    assert hints[13, "compute"].endswith(" each")
