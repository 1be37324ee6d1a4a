"""What static analysis says of tensors whose place is known at run time only."""

from __future__ import annotations

import pytest

from accelopt_lsp.analysis.files import analyze_kernel
from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.results import AnalysisOptions, KernelAnalysis
from accelopt_lsp.analysis.syntax import Document

GATHER = """import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=bf16[4096,128] index=u32[128,1]
@nki.jit{options}
def kernel(x, index):
    out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    idx = nl.load(index)
    i_f = nl.arange(128)[None, :]
    for i in nl.affine_range(32):
        {line}
        nl.store(out, rows)
    return out
"""


def analyzed(line: str, options: str = "", target: str | None = None) -> KernelAnalysis:
    document = Document.parse(GATHER.replace("{line}", line).replace("{options}", options))
    (kernel,) = find_kernels(document)
    return analyze_kernel(document, kernel, options=AnalysisOptions(target=target))


def test_rows_by_index_are_not_called_loaded_again() -> None:
    """The same rows in every iteration are; rows that an index names may be others each time."""
    again = analyzed("rows = nl.load(x[0:128, 0:128])")
    named = analyzed("rows = nl.load(x[idx, i_f])")
    assert "P01" in {d.code for d in again.diagnostics}
    assert "P01" not in {d.code for d in named.diagnostics}
    for found in (again, named):
        assert found.workload is not None and found.workload.complete


TRANSPOSE = "rows = nisa.dma_transpose(x[idx, i_f], axes=(1, 0))"


@pytest.mark.parametrize(
    ("options", "target", "codes"),
    [
        ("", None, {"R095"}),
        ('(mode="simulation", platform_target="trn2")', None, set()),
        ("(platform_target='trn3')", "trn1", {"R095"}),
        ("(platform_target='elsewhere')", None, {"R095"}),
    ],
)
def test_decorators_name_the_target(options: str, target: str | None, codes: set[str]) -> None:
    found = analyzed(TRANSPOSE, options, target)
    assert {d.code for d in found.diagnostics if d.code == "R095"} == codes
