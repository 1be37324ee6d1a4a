"""Folding of everything in a file with kernels.

Editors that are given ranges leave out their own by indentation, so none may be missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.nki.outline import FoldKind
from accelopt_lsp.server.outlines import outline_of

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

_KINDS = {
    FoldKind.COMMENT: lsp.FoldingRangeKind.Comment,
    FoldKind.IMPORTS: lsp.FoldingRangeKind.Imports,
    FoldKind.REGION: lsp.FoldingRangeKind.Region,
}


def register(app: App) -> None:
    @app.server.on(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    async def folding(params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange] | None:
        document = app.documents.get(params.text_document.uri)
        analysed = await outline_of(app, document) if document is not None else None
        if document is None or analysed is None or analysed.snapshot.outline is None:
            return None
        found = []
        for fold in analysed.snapshot.outline.folds:
            start = document.current_line(fold.start, analysed.generation)
            end = document.current_line(fold.end, analysed.generation)
            if start is not None and end is not None and start < end:
                found.append(lsp.FoldingRange(start - 1, end - 1, kind=_KINDS.get(fold.kind)))
        return found
