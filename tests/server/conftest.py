"""Clients of every ability, and the server process they talk to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Union

import pytest_asyncio
from lsprotocol import types as lsp
from pytest_lsp import LanguageClient, make_test_lsp_client

from accelopt_lsp.server.processes import descendants

FAKES = str(Path(__file__).parent / "fakes.py")
FAKE_SERVER = (sys.executable, FAKES, "serve")
REAL_SERVER = (sys.executable, "-m", "accelopt_lsp", "serve")


def capabilities(**without: bool) -> lsp.ClientCapabilities:
    """A client that can do everything, except what is set to False."""

    def able(name: str) -> bool:
        return without.get(name, True)

    encodings = [lsp.PositionEncodingKind.Utf16]
    if "encoding" in without:
        encodings = [without["encoding"]]
    tags = lsp.ClientDiagnosticsTagOptions([lsp.DiagnosticTag.Deprecated])
    return lsp.ClientCapabilities(
        general=lsp.GeneralClientCapabilities(position_encodings=encodings),
        text_document=lsp.TextDocumentClientCapabilities(
            diagnostic=lsp.DiagnosticClientCapabilities(
                related_information=True, tag_support=tags, code_description_support=True
            )
            if able("pull")
            else None,
            publish_diagnostics=lsp.PublishDiagnosticsClientCapabilities(),
            inlay_hint=lsp.InlayHintClientCapabilities(
                resolve_support=lsp.ClientInlayHintResolveOptions(
                    ["tooltip"] if able("lazy") else []
                )
            ),
            hover=lsp.HoverClientCapabilities(content_format=[_markup(able("markdown"))]),
            completion=lsp.CompletionClientCapabilities(
                completion_item=lsp.ClientCompletionItemOptions(
                    snippet_support=able("snippets"),
                    documentation_format=[_markup(able("markdown"))],
                    tag_support=lsp.CompletionItemTagOptions([lsp.CompletionItemTag.Deprecated])
                    if able("tags")
                    else None,
                )
            ),
            signature_help=lsp.SignatureHelpClientCapabilities(
                signature_information=lsp.ClientSignatureInformationOptions(
                    documentation_format=[_markup(able("markdown"))],
                    parameter_information=lsp.ClientSignatureParameterInformationOptions(
                        label_offset_support=able("offsets")
                    ),
                )
            ),
            definition=lsp.DefinitionClientCapabilities(link_support=able("links")),
            document_symbol=lsp.DocumentSymbolClientCapabilities(
                hierarchical_document_symbol_support=able("hierarchy")
            ),
            code_action=lsp.CodeActionClientCapabilities(
                code_action_literal_support=lsp.ClientCodeActionLiteralOptions(
                    lsp.ClientCodeActionKindOptions([])
                ),
                resolve_support=lsp.ClientCodeActionResolveOptions(
                    ["edit"] if able("lazy") else []
                ),
            ),
        ),
        workspace=lsp.WorkspaceClientCapabilities(
            apply_edit=able("apply"),
            configuration=able("configuration"),
            workspace_edit=lsp.WorkspaceEditClientCapabilities(
                document_changes=able("versions"),
                change_annotation_support=lsp.ChangeAnnotationsSupportOptions()
                if able("annotations")
                else None,
            ),
            inlay_hint=lsp.InlayHintWorkspaceClientCapabilities(able("refresh")),
            code_lens=lsp.CodeLensWorkspaceClientCapabilities(able("refresh")),
            # Whoever can be told to ask again gets what the tree shows first.
            diagnostics=lsp.DiagnosticWorkspaceClientCapabilities(
                able("refresh") and able("early")
            ),
        ),
        notebook_document=lsp.NotebookDocumentClientCapabilities(
            lsp.NotebookDocumentSyncClientCapabilities()
        ),
        window=lsp.WindowClientCapabilities(
            work_done_progress=able("progress"),
            show_document=lsp.ShowDocumentClientCapabilities(able("show")),
        ),
    )


def _markup(markdown: bool) -> lsp.MarkupKind:
    return lsp.MarkupKind.Markdown if markdown else lsp.MarkupKind.PlainText


class Session:
    """One client with its server, and what an editor would keep of their talk."""

    def __init__(self, client: LanguageClient) -> None:
        self.client = client
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.edits: list[lsp.ApplyWorkspaceEditParams] = []
        self.questions: list[lsp.ShowMessageRequestParams] = []
        self.shown: list[lsp.ShowDocumentParams] = []
        self.traces: list[lsp.LogTraceParams] = []
        self.answers: list[str | None] = []
        self.before_answer: Callable[[], None] | None = None
        self.initialized: lsp.InitializeResult | None = None
        # lsprotocol reads an action that holds a command as a bare command.
        client.protocol._converter.register_structure_hook(
            Union[lsp.Command, lsp.CodeAction],  # noqa: UP007 - cattrs tells it from A | B
            self._read_action,
        )
        # lsprotocol writes the filter of notebooks, but cannot read it.
        client.protocol._converter.register_structure_hook(
            lsp.NotebookDocumentSyncOptions, lambda data, kind: data
        )
        client.protocol._converter.register_structure_hook(
            Union[  # noqa: UP007
                lsp.NotebookDocumentSyncOptions, lsp.NotebookDocumentSyncRegistrationOptions, None
            ],
            lambda data, kind: data,
        )
        client.protocol.fm.features.update(
            {
                lsp.WINDOW_SHOW_MESSAGE_REQUEST: self._answer,
                lsp.WORKSPACE_APPLY_EDIT: self._apply,
                lsp.WORKSPACE_INLAY_HINT_REFRESH: self._refreshed,
                lsp.WORKSPACE_CODE_LENS_REFRESH: self._refreshed,
                lsp.WINDOW_SHOW_DOCUMENT: self._show,
                lsp.LOG_TRACE: self.traces.append,
            }
        )

    @property
    def pid(self) -> int:
        server = self.client._server
        assert server is not None
        return server.pid

    def children(self) -> list[int]:
        return [p.pid for p in descendants(self.pid)]

    def _read_action(self, data: dict[str, Any], kind: Any) -> lsp.CodeAction:
        found: lsp.CodeAction = self.client.protocol._converter.structure(data, lsp.CodeAction)
        return found

    def _refreshed(self, params: None) -> None:
        return None

    async def _answer(self, params: lsp.ShowMessageRequestParams) -> lsp.MessageActionItem | None:
        self.questions.append(params)
        if self.before_answer is not None:
            self.before_answer()
            await asyncio.sleep(0.1)
        answer = self.answers.pop(0) if self.answers else None
        return None if answer is None else lsp.MessageActionItem(answer)

    def _show(self, params: lsp.ShowDocumentParams) -> lsp.ShowDocumentResult:
        self.shown.append(params)
        return lsp.ShowDocumentResult(success=True)

    def _apply(self, params: lsp.ApplyWorkspaceEditParams) -> lsp.ApplyWorkspaceEditResult:
        self.edits.append(params)
        return self.apply(params.edit)

    def apply(self, edit: lsp.WorkspaceEdit) -> lsp.ApplyWorkspaceEditResult:
        """Apply as an editor does: only to the version that the edit is for."""
        for uri, version, edits in self._edits_by_document(edit):
            if version is not None and version != self.versions[uri]:
                return lsp.ApplyWorkspaceEditResult(False, "the document has changed")
            self.change(uri, apply_edits(self.texts[uri], edits))
        return lsp.ApplyWorkspaceEditResult(True)

    @staticmethod
    def _edits_by_document(edit: lsp.WorkspaceEdit) -> list[tuple[str, int | None, list[Any]]]:
        if edit.document_changes is not None:
            return [
                (d.text_document.uri, d.text_document.version, list(d.edits))
                for d in edit.document_changes
                if isinstance(d, lsp.TextDocumentEdit)
            ]
        return [(uri, None, list(edits)) for uri, edits in (edit.changes or {}).items()]

    async def start(
        self, *, options: Any = None, folders: Sequence[str] = (), **without: Any
    ) -> lsp.InitializeResult:
        params = lsp.InitializeParams(
            capabilities=capabilities(**without),
            initialization_options=options,
            workspace_folders=[lsp.WorkspaceFolder(uri, uri) for uri in folders],
        )
        self.initialized = await self.client.initialize_session(params)
        return self.initialized

    def open(self, uri: str, text: str) -> str:
        self.texts[uri], self.versions[uri] = text, 1
        item = lsp.TextDocumentItem(uri, "python", 1, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, text: str) -> None:
        self.texts[uri] = text
        self.versions[uri] += 1
        self.client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(
                lsp.VersionedTextDocumentIdentifier(self.versions[uri], uri),
                [lsp.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    async def diagnostics(self, uri: str, previous: str | None = None) -> Any:
        return await self.client.text_document_diagnostic_async(
            lsp.DocumentDiagnosticParams(
                lsp.TextDocumentIdentifier(uri), previous_result_id=previous
            )
        )

    async def hints(self, uri: str, first: int = 0, last: int = 10_000) -> list[lsp.InlayHint]:
        place = lsp.Range(lsp.Position(first, 0), lsp.Position(last, 0))
        params = lsp.InlayHintParams(lsp.TextDocumentIdentifier(uri), place)
        return list(await self.client.text_document_inlay_hint_async(params) or ())

    async def lenses(self, uri: str) -> list[lsp.CodeLens]:
        params = lsp.CodeLensParams(lsp.TextDocumentIdentifier(uri))
        return list(await self.client.text_document_code_lens_async(params) or ())

    async def hover(self, uri: str, needle: str, inside: int = 0) -> str | None:
        """Hover over the first occurrence of ``needle``; the page as Markdown."""
        before = self.texts[uri][: self.texts[uri].index(needle) + inside]
        line, column = before.count("\n"), len(before) - (before.rfind("\n") + 1)
        params = lsp.HoverParams(lsp.TextDocumentIdentifier(uri), lsp.Position(line, column))
        found = await self.client.text_document_hover_async(params)
        return None if found is None else found.contents.value

    async def actions(self, uri: str, line: int, only: list[Any] | None = None) -> list[Any]:
        place = lsp.Range(lsp.Position(line, 0), lsp.Position(line, 0))
        context = lsp.CodeActionContext([], only=only)
        params = lsp.CodeActionParams(lsp.TextDocumentIdentifier(uri), place, context)
        return list(await self.client.text_document_code_action_async(params) or ())

    async def command(self, name: str, *arguments: Any) -> Any:
        return await self.client.workspace_execute_command_async(
            lsp.ExecuteCommandParams(name, list(arguments))
        )

    async def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Wait until something holds, and give it back."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < end, f"waited {seconds} s in vain; messages: {self.said()}"
            await asyncio.sleep(0.01)
        return found

    async def eventually(
        self, ask: Callable[[], Any], good: Callable[[Any], bool], seconds: float = 30.0
    ) -> Any:
        """Ask until the answer is good, and give it back."""
        end = time.monotonic() + seconds
        while not good(found := await ask()):
            assert time.monotonic() < end, f"last answer: {found}"
            await asyncio.sleep(0.02)
        return found

    def logged(self, part: str) -> bool:
        return any(part in m.message for m in self.client.log_messages)

    async def message(self, part: str, seconds: float = 60.0) -> str:
        """Wait for a message to the user that holds a text."""
        found: str = await self.until(
            lambda: next((m for m in self.said() if part in m), None), seconds
        )
        return found

    def said(self) -> list[str]:
        return [m.message for m in self.client.messages]

    def progress(self, job: str, kind: type | None = None) -> list[Any]:
        reports: list[Any] = list(self.client.progress_reports.get(job, []))
        return [r for r in reports if kind is None or isinstance(r, kind)]


def apply_edits(text: str, edits: list[Any]) -> str:
    """A text with edits applied; all positions are of the text as it was (ASCII or UTF-16)."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def offset(position: lsp.Position) -> int:
        return min(starts[position.line] + position.character, len(text))

    for edit in sorted(edits, key=lambda e: offset(e.range.start), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


@contextlib.asynccontextmanager
async def connected(command: tuple[str, ...], **environment: str) -> AsyncIterator[Session]:
    """A session with a server process of its own, ended in good order afterwards."""
    client = make_test_lsp_client()
    await client.start_io(*command, env={**os.environ, **environment})
    session = Session(client)
    try:
        yield session
        server = client._server
        if server is not None and server.returncode is None:
            await asyncio.wait_for(client.shutdown_session(), 30)
    finally:
        if client._server is not None and client._server.returncode is None:
            client._server.kill()
        await client.stop()


@pytest_asyncio.fixture
async def session() -> AsyncIterator[Session]:
    """A session with the server whose children are fakes; call ``start`` first."""
    async with connected(FAKE_SERVER) as found:
        yield found


@pytest_asyncio.fixture
async def real() -> AsyncIterator[Session]:
    """A session with the server as users run it; call ``start`` first."""
    async with connected(REAL_SERVER) as found:
        yield found
