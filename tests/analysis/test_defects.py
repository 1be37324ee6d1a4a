"""A defect of the analysis itself costs one kernel's figures, never the file or the caller."""

from __future__ import annotations

import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.runner import run_kernel
from accelopt_lsp.analysis.syntax import Document

TWO_KERNELS = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

# accelopt: x=f32[128,64]
@nki.jit
def first(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out

# accelopt: x=f32[256,64]
@nki.jit
def second(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""


def test_a_defect_in_one_kernel_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(document, kernel, *rest, **options):  # type: ignore[no-untyped-def]
        if kernel.name == "first":
            raise RuntimeError("broken")
        return run_kernel(document, kernel, *rest, **options)

    monkeypatch.setattr("accelopt_lsp.analysis.files.run_kernel", failing)
    found = analyze(Document.parse(TWO_KERNELS))
    first, second = found.kernels
    assert first.workload is not None
    assert "RuntimeError: broken" in first.workload.unknowns[0][1]
    assert first.profile is None
    assert any(d.code == "R023" for d in second.diagnostics)


@pytest.mark.parametrize(
    "expression",
    ["np.identity(n=128)", "np.eye()", "np.zeros()", "[][0]", "{}['a']", "(1).nothing", "'x' + 1"],
)
def test_wrong_host_code_is_unknown_not_a_crash(expression: str) -> None:
    text = TWO_KERNELS.replace("    nl.store(", f"    y = {expression}\n    nl.store(", 1)
    found = analyze(Document.parse(f"import numpy as np\n{text}"))
    first = found.kernels[0]
    assert first.workload is not None
    assert not any("this is a defect" in reason for _, reason in first.workload.unknowns)
