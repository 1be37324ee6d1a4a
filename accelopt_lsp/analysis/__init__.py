"""Static analysis: syntax, arguments, workload, estimates and rules, without running anything.

Parsing and analysis never raise on any text; what is not known is said, not guessed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from accelopt_lsp.analysis.results import (
    AnalysisOptions,
    FileAnalysis,
    Hint,
    KernelAnalysis,
    SyntaxAnalysis,
)

if TYPE_CHECKING:
    from accelopt_lsp.analysis.syntax import Document
    from accelopt_lsp.analysis.workspace import Workspace

__all__ = [
    "AnalysisOptions",
    "FileAnalysis",
    "Hint",
    "KernelAnalysis",
    "SyntaxAnalysis",
    "analyze",
    "analyze_syntax",
]


def analyze(
    document: Document,
    *,
    path: Path | None = None,
    options: AnalysisOptions | None = None,
    workspace: Workspace | None = None,
) -> FileAnalysis:
    """Analyze a file; see :func:`accelopt_lsp.analysis.files.analyze`."""
    from accelopt_lsp.analysis.files import analyze as run

    return run(document, path=path, options=options, workspace=workspace)


def analyze_syntax(document: Document, *, options: AnalysisOptions | None = None) -> SyntaxAnalysis:
    """The syntax tier of a file; see :func:`accelopt_lsp.analysis.files.analyze_syntax`."""
    from accelopt_lsp.analysis.files import analyze_syntax as run

    return run(document, options=options)
