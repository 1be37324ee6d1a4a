"""Loops of the hardware: counted where their bounds follow from the text, else unknown."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.syntax import Document
from tests.analysis.test_static_equals_traced import compare

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,64] n=i32[1,1] nki-version=0.6
@nki.jit
def kernel(x, n):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    register = nisa.register_alloc(3)
    calls = 0
"""
LOADED = "    nisa.register_load(register, n)\n"
WORK = (
    "nisa.memset(dst=tile, value=0.0)",
    "nisa.tensor_copy(dst=tile[:, 0:8], src=tile[:, nl.ds({place}, 8)])",
    "nisa.memset(dst=tile[:, 0 : 4 + calls], value=1.0)",
    "nisa.register_move(register, {count})",
    "nisa.register_move(register, nisa.register_alloc({count}))",
)
LOOPS = (
    "for {v} in range({start}, {stop}):\n{body}",
    "for {v} in nl.dynamic_range({start}, {stop}, {step}):\n{body}",
    "def body_{v}({v}):\n    nonlocal calls\n    calls += 1\n{body}\n"
    "nl.fori_loop({start}, {stop}, body_{v}, {step})",
    "def body_{v}({v}):\n{body}\n    return nisa.register_alloc(0)\n"
    "nl.while_loop(nisa.register_alloc({stop}), body_{v})",
)


def indented(text: str, depth: int = 1) -> str:
    return "\n".join("    " * depth + line for line in text.splitlines())


@st.composite
def nests(draw: st.DrawFn, depth: int = 2, names: str = "ijk") -> str:
    name, rest = names[0], names[1:]
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        if depth and rest and draw(st.booleans()):
            parts.append(draw(nests(depth - 1, "".join(rest))))
        else:
            work = draw(st.sampled_from(WORK))
            parts.append(work.format(place="register", count=draw(st.integers(0, 4))))
    loop = draw(st.sampled_from(LOOPS))
    bounds = [str(draw(st.integers(0, 3))), draw(st.sampled_from(["0", "2", "4", "register"]))]
    if loop.startswith("for {v} in range") and bounds[1] == "register":
        bounds[1] = "3"
    body = "\n".join(parts)
    if "def body_" in loop and "def body_" not in body:
        body = body.replace("calls", "0")
    if "nl.while_loop" in loop:
        bounds[1] = bounds[1].replace("register", "1")
        body = body.replace("nonlocal calls\n    calls += 1", "pass")
    return loop.format(
        v=name,
        start=bounds[0],
        stop=bounds[1],
        step=draw(st.integers(1, 2)),
        body=indented(body),
    )


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=nests())
def test_nests_issue_what_the_simulator_issues(tmp_path, text):
    """Loops of every kind in each other, with registers that change on the way."""
    path = tmp_path / "generated.py"
    path.write_text(f"{HEAD}{indented(text)}\n    return out\n", "utf-8")
    assert compare(path, must_be_complete=True) == 1


UNKNOWN = [
    ("for _ in nl.dynamic_range(register):\n    work()", "the value of n is known on the device"),
    ("nl.fori_loop(0, register, body)", "nl.fori_loop is not counted: the value of n"),
    ("nl.fori_loop(register, 8, body)", "nl.fori_loop is not counted: the value of n"),
    ("nl.while_loop(register, again)", "nl.while_loop is not counted: the value of n"),
    ("while register:\n    work()", "the number of iterations of this loop is not known"),
    ("nl.fori_loop(0, 4, other)", "other"),
]
BODIES = """
    def work():
        nisa.memset(dst=tile, value=0.0)
    def body(i):
        for _ in range(5):
            work()
    def again(r):
        work()
        return r
"""


@pytest.mark.parametrize(("loop", "reason"), UNKNOWN)
def test_what_only_the_device_knows_is_unknown_with_its_reason(loop, reason):
    text = f"{HEAD}{LOADED}{BODIES}{indented(loop)}\n    return out\n"
    (kernel,) = analyze(Document.parse(text)).kernels
    assert kernel.workload is not None
    assert not kernel.workload.complete
    reasons = [why for _, why in kernel.workload.unknowns]
    assert any(reason in why for why in reasons), reasons
    assert "memset" not in kernel.workload.issued.instructions
    assert kernel.profile is not None and kernel.profile.latency_ms is None


TEXTS = [
    ("range(m // 2)", "m // 2 trips"),
    ("range(0, m)", "m trips"),
    ("range(1, m)", "m - 1 trips"),
    ("nl.affine_range(0, m, 64)", "ceil(m / 64) trips"),
    ("nl.dynamic_range(2, m, 64)", "ceil((m - 2) / 64) trips"),
]


@pytest.mark.parametrize(("loop", "shown"), TEXTS)
def test_unknown_trips_are_shown_as_they_are_written(loop, shown):
    body = f"    m = y.shape[0]\n    for _ in {loop}:\n        nisa.memset(dst=tile, value=0.0)\n"
    text = f"{HEAD}{body}    return out\n".replace("def kernel(x, n)", "def kernel(x, n, y)")
    (kernel,) = analyze(Document.parse(text)).kernels
    assert [hint.text for hint in kernel.hints if hint.kind == "loop"] == [shown]


def test_loops_inside_an_uncounted_one_have_trips_and_no_total():
    text = f"{HEAD}{LOADED}{BODIES}    nl.fori_loop(0, register, body)\n    return out\n"
    (kernel,) = analyze(Document.parse(text)).kernels
    assert kernel.workload is not None
    totals = {loop.variable: loop.total_trips for loop in kernel.workload.loops}
    assert totals == {"i": None, "_": None}
    shown = {hint.text for hint in kernel.hints if hint.kind == "loop"}
    assert any("register" in text for text in shown), shown
