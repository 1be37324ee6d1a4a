"""Turning a new text into small edits, and applying edits with the user's consent."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from lsprotocol import types as lsp

from accelopt_lsp.nki.lines import split_lines
from accelopt_lsp.server.client import Client
from accelopt_lsp.server.documents import Document
from accelopt_lsp.server.positions import LineIndex

ANNOTATION = "accelopt"


def text_edits(index: LineIndex, new_text: str) -> list[lsp.TextEdit]:
    """Edits of whole lines that turn a text into ``new_text``; unchanged lines stay untouched."""
    old, new = split_lines(index.text), split_lines(new_text)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    return [
        lsp.TextEdit(index.range(starts[i], starts[j]), "".join(new[k:m]))
        for kind, i, j, k, m in matcher.get_opcodes()
        if kind != "equal"
    ]


def workspace_edit(
    document: Document,
    edits: Sequence[lsp.TextEdit],
    client: Client,
    *,
    label: str,
    description: str | None = None,
    confirm: bool = False,
) -> lsp.WorkspaceEdit:
    """An edit of one document, tied to its version where the client knows versions.

    With ``confirm`` the change asks for confirmation in clients that can show a preview.
    """
    if not client.versioned_edits:
        return lsp.WorkspaceEdit(changes={document.uri: list(edits)})
    identifier = lsp.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
    if not client.change_annotations:
        return lsp.WorkspaceEdit(document_changes=[lsp.TextDocumentEdit(identifier, list(edits))])
    annotated = [lsp.AnnotatedTextEdit(ANNOTATION, e.range, e.new_text) for e in edits]
    annotation = lsp.ChangeAnnotation(label, needs_confirmation=confirm, description=description)
    return lsp.WorkspaceEdit(
        document_changes=[lsp.TextDocumentEdit(identifier, annotated)],
        change_annotations={ANNOTATION: annotation},
    )
