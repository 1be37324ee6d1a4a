"""Diagnostics that jobs leave behind: a run that failed says so at its line.

They stay until their line is edited, the kernel is run again, or the document is closed.
"""

from __future__ import annotations

from attrs import frozen

from accelopt_lsp.nki.diagnostics import Diagnostic, Position, Severity, Span
from accelopt_lsp.server.documents import Document
from accelopt_lsp.server.snapshot import Problem


@frozen(slots=True)
class Finding:
    """One diagnostic, of the text of ``generation``."""

    kernel: str
    generation: int
    diagnostic: Diagnostic


class Findings:
    """Findings by document."""

    def __init__(self) -> None:
        self._by_uri: dict[str, tuple[Finding, ...]] = {}

    def of(self, document: Document) -> tuple[Finding, ...]:
        """Those whose line still stands as it was."""
        kept = tuple(
            f
            for f in self._by_uri.get(document.uri, ())
            if document.current_line(f.diagnostic.span.start.line, f.generation) is not None
        )
        self._by_uri[document.uri] = kept
        return kept

    def add(self, uri: str, kernel: str, generation: int, problem: Problem, line_text: str) -> bool:
        """Keep a job's problem; False if it names no line."""
        if problem.line is None:
            return False
        indent = len(line_text) - len(line_text.lstrip())
        start = problem.column if problem.column is not None else indent + 1
        end = max(start, len(line_text.rstrip()) + 1)
        diagnostic = Diagnostic(
            code=problem.code or "run",
            severity=Severity.ERROR,
            message=problem.message,
            span=Span(Position(problem.line, start), Position(problem.line, end)),
        )
        found = Finding(kernel, generation, diagnostic)
        self._by_uri[uri] = (*self._by_uri.get(uri, ()), found)
        return True

    def clear(self, uri: str, kernel: str | None = None) -> bool:
        """Forget a kernel's findings, or all of a document's; True if there were any."""
        before = self._by_uri.get(uri, ())
        after = tuple(f for f in before if kernel is not None and f.kernel != kernel)
        self._by_uri[uri] = after
        return len(after) != len(before)
