"""Diagnostics: pulled with result ids; pushed only to clients that cannot pull."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve
from lsprotocol import types as lsp

from accelopt_lsp.nki.diagnostics import Diagnostic, Position, Related, Severity, Span
from accelopt_lsp.server.analyses import Analysed
from accelopt_lsp.server.documents import Document

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

SOURCE = "accelopt"
_SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.INFORMATION: lsp.DiagnosticSeverity.Information,
    Severity.HINT: lsp.DiagnosticSeverity.Hint,
}
Report = lsp.RelatedFullDocumentDiagnosticReport | lsp.RelatedUnchangedDocumentDiagnosticReport


def register(app: App) -> None:
    options = lsp.DiagnosticOptions(
        inter_file_dependencies=True, workspace_diagnostics=False, identifier=SOURCE
    )

    @app.server.on(lsp.TEXT_DOCUMENT_DIAGNOSTIC, options)
    async def pull(params: lsp.DocumentDiagnosticParams) -> Report:
        document = app.documents.get(params.text_document.uri)
        if document is None:
            return lsp.RelatedFullDocumentDiagnosticReport([])
        _pulled_from(app, document)
        if app.client.refreshes_diagnostics:
            # What the tree shows comes at once; the client is told to ask again for the rest.
            await app.analyses.readable(document)
            if app.analyses.syntax(document.uri) is not None:
                app.answered_early.add(document.uri)
        else:
            await app.analyses.current(document)
        items = diagnostics_of(app, document)
        result = hashlib.sha256(repr(items).encode("utf-8", "replace")).hexdigest()[:16]
        if result == params.previous_result_id:
            return lsp.RelatedUnchangedDocumentDiagnosticReport(result)
        return lsp.RelatedFullDocumentDiagnosticReport(items, result_id=result)


def _pulled_from(app: App, document: Document) -> None:
    """Who pulls diagnostics of a notebook's cells is not pushed them as well."""
    notebook = app.server.notebooks.get(document.uri)
    if notebook is None or notebook.pulled:
        return
    notebook.pulled = True
    if notebook.marked:
        nothing = lsp.PublishDiagnosticsParams(document.uri, [])
        app.server.text_document_publish_diagnostics(nothing)


def current_diagnostics(app: App, document: Document) -> list[Diagnostic]:
    """All diagnostics of a document at the lines where they are now."""
    found: list[Diagnostic] = []
    if app.configuration_of(document).diagnostics != "off":
        for analysed, diagnostic in _analysed(app, document):
            moved = _moved(diagnostic, document, analysed.generation)
            if moved is not None:
                found.append(moved)
    for finding in app.findings.of(document):
        moved = _moved(finding.diagnostic, document, finding.generation)
        if moved is not None:
            found.append(moved)
    return found


def _analysed(app: App, document: Document) -> Iterator[tuple[Analysed, Diagnostic]]:
    """What is known of the text: of its tree perhaps newer things than of the rest."""
    full, syntax = app.analyses.latest(document.uri), app.analyses.syntax(document.uri)
    decided = (syntax.snapshot.decided if syntax is not None else None) or frozenset()
    for diagnostic in full.snapshot.diagnostics if full is not None else ():
        if diagnostic.code not in decided:
            assert full is not None
            yield full, diagnostic
    for diagnostic in syntax.snapshot.diagnostics if syntax is not None else ():
        assert syntax is not None
        yield syntax, diagnostic


def diagnostics_of(app: App, document: Document) -> list[lsp.Diagnostic]:
    """The same in LSP's terms."""
    known = (app.analyses.latest(document.uri), app.analyses.syntax(document.uri))
    pages = {c: p for analysed in known if analysed for c, p in analysed.snapshot.pages.items()}
    return [
        to_lsp(app, document, diagnostic, pages.get(diagnostic.code))
        for diagnostic in current_diagnostics(app, document)
    ]


def project_diagnostics(found: Iterable[Diagnostic]) -> list[lsp.Diagnostic]:
    """Diagnostics of a ``pyproject.toml``, whose text is not open here: as whole lines."""
    return [
        lsp.Diagnostic(
            range=lsp.Range(
                lsp.Position(d.span.start.line - 1, 0), lsp.Position(d.span.end.line, 0)
            ),
            message=d.message,
            severity=_SEVERITIES[d.severity],
            code=d.code,
            source=SOURCE,
        )
        for d in found
    ]


def _moved(diagnostic: Diagnostic, document: Document, generation: int) -> Diagnostic | None:
    if generation == document.generation:
        return diagnostic
    span = _moved_span(diagnostic.span, document, generation)
    if span is None:
        return None
    related = tuple(
        evolve(r, span=moved)
        for r in diagnostic.related
        if (moved := _moved_related(r, document, generation)) is not None
    )
    return evolve(diagnostic, span=span, related=related)


def _moved_related(related: Related, document: Document, generation: int) -> Span | None:
    """Where a related place is now; places in other files stay."""
    if related.path is not None:
        return related.span
    return _moved_span(related.span, document, generation)


def _location(document: Document, related: Related) -> lsp.Location:
    if related.path is None:
        return lsp.Location(document.uri, document.index.span_range(related.span))
    # Places in other files are lines: their columns are not needed.
    start = lsp.Position(max(related.span.start.line - 1, 0), 0)
    end = lsp.Position(max(related.span.end.line, 1), 0)
    return lsp.Location(Path(related.path).as_uri(), lsp.Range(start, end))


def _moved_span(span: Span, document: Document, generation: int) -> Span | None:
    start = document.current_line(span.start.line, generation)
    end = document.current_line(span.end.line, generation)
    if start is None or end is None:
        return None
    return Span(Position(start, span.start.column), Position(end, span.end.column))


def to_lsp(
    app: App, document: Document, diagnostic: Diagnostic, page: str | None = None
) -> lsp.Diagnostic:
    """One diagnostic in LSP's terms, with what the client can show."""
    description = None
    if page is not None and app.client.code_descriptions:
        description = lsp.CodeDescription(Path(page).as_uri())
    related = None
    if diagnostic.related and app.client.related_information:
        related = [
            lsp.DiagnosticRelatedInformation(_location(document, r), r.message)
            for r in diagnostic.related
        ]
    deprecated = diagnostic.deprecated and app.client.deprecated_tag
    return lsp.Diagnostic(
        range=document.index.span_range(diagnostic.span),
        message=diagnostic.message,
        severity=_SEVERITIES[diagnostic.severity],
        code=diagnostic.code,
        code_description=description,
        source=SOURCE,
        tags=[lsp.DiagnosticTag.Deprecated] if deprecated else None,
        related_information=related,
    )
