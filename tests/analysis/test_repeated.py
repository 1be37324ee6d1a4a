"""Results of helpers are kept with their module, for all runs that see the same text."""

from __future__ import annotations

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.workspace import Workspace

HELPERS = """
class Piece:
    def __init__(self, tensor, size):
        self.tensor = tensor
        self.size = size

    def halves(self, times):
        size = self.size
        for _ in range(times):
            size = size // 2
        found = Piece(self.tensor, size)
        return found
"""
KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl
from helpers import Piece

# accelopt: x=f32[128,64]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    piece = Piece(tile, 64)
    for _ in range(piece.halves(2).size):
        nisa.memset(dst=tile, value=1.0)
    for _ in range(piece.halves(2).size):
        nisa.tensor_copy(dst=tile, src=tile)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


def counts(text, path, workspace):
    workspace.refresh()
    (kernel,) = analyze(Document.parse(text), path=path, workspace=workspace).kernels
    return {line.line: line.count for line in kernel.workload.lines}


def test_results_follow_the_module(tmp_path):
    path, helpers = tmp_path / "kernel.py", tmp_path / "helpers.py"
    path.write_text(KERNEL, "utf-8")
    helpers.write_text(HELPERS, "utf-8")
    workspace = Workspace()
    first = counts(KERNEL, path, workspace)
    assert sorted(first.values()) == [1, 1, 16, 16]
    edited = KERNEL.replace("value=1.0", "value=2.0")
    assert counts(edited, path, workspace) == first
    helpers.write_text(HELPERS.replace("size // 2", "size // 4"), "utf-8")
    assert sorted(counts(edited, path, workspace).values()) == [1, 1, 4, 4]
