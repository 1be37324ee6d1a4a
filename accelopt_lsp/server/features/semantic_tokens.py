"""Semantic tokens for tensors by memory, and for nothing else: modifiers sbuf, psum and hbm."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.server.documents import Document
from accelopt_lsp.server.positions import units

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

_MODIFIERS = ("declaration", "sbuf", "psum", "hbm")
LEGEND = lsp.SemanticTokensLegend([lsp.SemanticTokenTypes.Variable.value], list(_MODIFIERS))


def register(app: App) -> None:
    last: dict[str, tuple[str, list[int]]] = {}
    numbers = itertools.count(1)

    def shown(uri: str) -> Document | None:
        document = app.documents.get(uri)
        if document is None or not document.concerns_nki:
            return None
        return document if app.configuration_of(document).semantic_tokens else None

    def remembered(uri: str, data: list[int]) -> str:
        result = str(next(numbers))
        last.pop(uri, None)
        last[uri] = (result, data)
        while len(last) > 50:
            last.pop(next(iter(last)))
        return result

    @app.server.on(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, LEGEND)
    async def full(params: lsp.SemanticTokensParams) -> lsp.SemanticTokens | None:
        uri = params.text_document.uri
        document = shown(uri)
        if document is None or app.analyses.latest(uri) is None:
            return None
        data = tokens(app, document)
        return lsp.SemanticTokens(data, remembered(uri, data))

    @app.server.on(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA, LEGEND)
    async def delta(
        params: lsp.SemanticTokensDeltaParams,
    ) -> lsp.SemanticTokens | lsp.SemanticTokensDelta | None:
        uri = params.text_document.uri
        document = shown(uri)
        if document is None:
            return None
        before = last.get(uri)
        data = tokens(app, document)
        result = remembered(uri, data)
        if before is None or before[0] != params.previous_result_id:
            return lsp.SemanticTokens(data, result)
        return lsp.SemanticTokensDelta(_edits(before[1], data), result)

    @app.server.on(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, LEGEND)
    async def range_(params: lsp.SemanticTokensRangeParams) -> lsp.SemanticTokens | None:
        document = shown(params.text_document.uri)
        if document is None:
            return None
        lines = range(params.range.start.line, params.range.end.line + 1)
        return lsp.SemanticTokens(tokens(app, document, lines))


def tokens(app: App, document: Document, lines: range | None = None) -> list[int]:
    """Encoded tokens of the last analysis where the text still has these names.

    Args:
        lines: from 0; None for all.
    """
    analysed = app.analyses.latest(document.uri)
    if analysed is None:
        return []
    encoding = document.encoding
    found = []
    for use in analysed.snapshot.buffers:
        line = document.current_line(use.line, analysed.generation)
        if line is None or (lines is not None and line - 1 not in lines):
            continue
        text = document.index.line(line - 1)
        start = use.column - 1
        if text[start : start + len(use.name)] != use.name:
            continue
        modifiers = 1 << _MODIFIERS.index(use.buffer.value)
        if use.declared:
            modifiers |= 1
        at = units(text[:start], encoding)
        found.append((line - 1, at, units(use.name, encoding), modifiers))
    data: list[int] = []
    row, column = 0, 0
    for line, at, length, modifiers in sorted(found):
        data += (line - row, at - column if line == row else at, length, 0, modifiers)
        row, column = line, at
    return data


def _edits(old: list[int], new: list[int]) -> list[lsp.SemanticTokensEdit]:
    """What to replace in the old numbers, between their common beginning and end."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    if head == len(old) == len(new):
        return []
    return [lsp.SemanticTokensEdit(head, len(old) - head - tail, new[head : len(new) - tail])]
