"""Behind an exit that nobody can decide nothing is counted, and everything is checked."""

from __future__ import annotations

import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.syntax import Document

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,64]
@nki.jit
def kernel(x, n):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
"""
SET = "nisa.memset(dst=tile, value=0.0)"
BODIES = [
    (f"if n > 3:\n    return out\n{SET}", {}),
    (f"for i in range(4):\n    if n > i:\n        continue\n    {SET}\n{SET}", {"memset": 1}),
    (f"for i in range(4):\n    {SET}\n    if n > i:\n        break\n{SET}", {"memset": 1}),
    (f"for i in range(4):\n    {SET}\n    if n > i:\n        return out\n{SET}", {}),
    (f"for i in range(4):\n    for j in range(n):\n        break\n    {SET}", {"memset": 4}),
    (f"for i in range(4):\n    for j in range(n):\n        return out\n    {SET}", {}),
    (f"while n > 3:\n    return out\n{SET}", {}),
    (
        f"def early(k):\n    if n > k:\n        return 1\n    return 2\nm = early(2)\n{SET}",
        {"memset": 1},
    ),
    (f"if n > 3:\n    def inner():\n        return 1\n{SET}", {"memset": 1}),
    (f"if n > 3:\n    for i in range(2):\n        break\n{SET}", {"memset": 1}),
    (f"if n > 3:\n    raise ValueError(n)\n{SET}", {"memset": 1}),
]


def kernel_of(body: str):
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    (kernel,) = analyze(Document.parse(f"{HEAD}{indented}\n    return out\n")).kernels
    assert kernel.workload is not None
    return kernel


@pytest.mark.parametrize(("body", "counted"), BODIES)
def test_what_is_counted(body, counted):
    kernel = kernel_of(body)
    assert not kernel.workload.complete
    assert dict(kernel.workload.issued.instructions) == {"dma_copy": 1, **counted}


def test_a_value_that_depends_on_an_exit_is_not_known():
    kernel = kernel_of(
        "def early():\n    if n > 2:\n        return 4\n    return 8\n"
        "for i in range(early()):\n    nisa.memset(dst=tile, value=0.0)"
    )
    assert "memset" not in kernel.workload.issued.instructions
    assert any("what early returns" in why for _, why in kernel.workload.unknowns)


def test_code_behind_an_exit_is_checked_and_its_loops_have_no_total():
    kernel = kernel_of(
        "if n > 3:\n    return out\nfor i in range(4):\n"
        "    large = nl.ndarray((256, 4), dtype=nl.float32, buffer=nl.sbuf)\n"
        "    nisa.memset(dst=large, value=0.0)\nassert x.shape[0] == 64"
    )
    assert [d.code for d in kernel.diagnostics if d.code.startswith(("R", "A"))] == ["R023"]
    assert [loop.total_trips for loop in kernel.workload.loops] == [None]
