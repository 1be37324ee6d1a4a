"""What hints say of small numbers and of tiles without a name."""

from __future__ import annotations

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.hints import build_hints
from accelopt_lsp.analysis.syntax import Document

TEXT = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.exp(nl.subtract(tile, 1.0)))
    return out
"""


def test_one_transfer_and_tiles_without_a_name() -> None:
    (kernel,) = analyze(Document.parse(TEXT)).kernels
    assert kernel.workload is not None and kernel.profile is not None
    details = [hint.detail for hint in build_hints(kernel.workload, kernel.profile)]
    assert any(detail.startswith("1 transfer of 256 KiB: ") for detail in details)
    assert not any("``" in detail for detail in details)
