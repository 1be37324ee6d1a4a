"""Inlay hints at line ends, for the visible range; the derivation comes when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def register(app: App) -> None:
    @app.server.on(lsp.TEXT_DOCUMENT_INLAY_HINT)
    async def hints(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        document = app.documents.get(params.text_document.uri)
        if document is None:
            return []
        choice = app.configuration_of(document).hints
        if not choice.kinds:
            return []
        analysed = await app.shown_analysis(document, app.client.refreshes_hints)
        if analysed is None:
            return []
        first, last = params.range.start.line + 1, params.range.end.line + 1
        found = []
        for kernel in analysed.snapshot.kernels:
            for number, hint in choice.of(kernel.hints):
                line = document.current_line(hint.line, analysed.generation)
                if line is None or not first <= line <= last:
                    continue
                lazy = app.client.resolves_hint_tooltips
                found.append(
                    lsp.InlayHint(
                        position=document.index.end_of_line(line),
                        label=hint.text,
                        padding_left=True,
                        tooltip=None if lazy or not hint.detail else _tooltip(hint.detail),
                        data={
                            "uri": document.uri,
                            "generation": analysed.generation,
                            "kernel": kernel.qualname,
                            "hint": number,
                        },
                    )
                )
        return found

    @app.server.on(lsp.INLAY_HINT_RESOLVE)
    async def resolve(hint: lsp.InlayHint) -> lsp.InlayHint:
        data = hint.data
        if not isinstance(data, dict) or hint.tooltip is not None:
            return hint
        analysed = app.analyses.latest(str(data.get("uri")))
        if analysed is None or analysed.generation != data.get("generation"):
            return hint
        kernel = analysed.snapshot.kernel_named(str(data.get("kernel")))
        number = data.get("hint")
        if kernel is None or not isinstance(number, int) or not 0 <= number < len(kernel.hints):
            return hint
        detail = kernel.hints[number].detail
        if detail:
            hint.tooltip = _tooltip(detail)
        return hint


def _tooltip(detail: str) -> lsp.MarkupContent:
    return lsp.MarkupContent(lsp.MarkupKind.Markdown, detail)
