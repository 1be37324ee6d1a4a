"""Open, change, save, close: keeps analyses going. The texts themselves are kept before this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.server.features import tracing

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def register(app: App) -> None:
    @app.server.on(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        document = app.documents.get(params.text_document.uri)
        if document is not None:
            app.analyses.schedule(document, at_once=True)

    @app.server.on(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        document = app.documents.get(params.text_document.uri)
        if document is not None:
            tracing.cancel(app, document.uri)
        if document is not None and app.configuration_of(document).diagnostics == "onType":
            app.analyses.schedule(document)
            app.analyses.schedule_importers(document)

    @app.server.on(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        document = app.documents.get(params.text_document.uri)
        latest = app.analyses.latest(params.text_document.uri)
        if document is not None and (latest is None or latest.generation != document.generation):
            app.analyses.schedule(document, at_once=True)
            app.answered_early.add(document.uri)
        app.workspace_changed.set()
        if document is not None:
            app.analyses.schedule_importers(document)
            tracing.after_save(app, document)

    @app.server.on(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        if app.documents.get(uri) is not None:
            return  # opened again before this handler ran
        app.workspace_changed.set()
        tracing.cancel(app, uri)
        app.answered_early.discard(uri)
        app.analyses.forget(uri)
        app.findings.clear(uri)
        app.profiles = {k: v for k, v in app.profiles.items() if k[0] != uri}
        if app.pushes(uri):
            app.server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))
