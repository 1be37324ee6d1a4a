"""Findings with a mechanical remedy: applied, the finding is gone and the text as expected."""

from __future__ import annotations

import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.workbench.fixes import apply_fix

CURRENT = """
import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    {line}
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
LEGACY = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[4,128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((4, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    state = nl.zeros((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in {line}:
        nl.store(out[i], value=state)
        state[...] = nl.load(x[i])
    return out
"""


@pytest.mark.parametrize(
    ("code", "text", "before", "after"),
    [
        (
            "R061",
            CURRENT,
            "nisa.tensor_copy(dst=tile, src=tile, mask=None)",
            "nisa.tensor_copy(dst=tile, src=tile)",
        ),
        (
            "R061",
            CURRENT,
            "nisa.tensor_copy(dtype=nl.bfloat16, dst=tile, src=tile)",
            "nisa.tensor_copy(dst=tile, src=tile)",
        ),
        ("R055", LEGACY, "nl.affine_range(4)", "nl.sequential_range(4)"),
    ],
)
def test_a_remedy_is_applied(code: str, text: str, before: str, after: str) -> None:
    broken = text.format(line=before)
    (found,) = [d for d in analyze(Document.parse(broken)).diagnostics if d.code == code]
    assert found.fix is not None
    mended = apply_fix(broken, found.fix)
    assert mended == text.format(line=after)
    assert code not in {d.code for d in analyze(Document.parse(mended)).diagnostics}
