"""Code actions: quick fixes, resolved when chosen, and what can be done with a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from accelopt_lsp.nki.diagnostics import Diagnostic
from accelopt_lsp.server.analyses import WorkerError
from accelopt_lsp.server.documents import Document
from accelopt_lsp.server.edits import text_edits, workspace_edit
from accelopt_lsp.server.features.diagnostics import to_lsp
from accelopt_lsp.server.snapshot import Request

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def register(app: App) -> None:
    options = lsp.CodeActionOptions(
        code_action_kinds=[lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.RefactorRewrite],
        resolve_provider=True,
    )

    @app.server.on(lsp.TEXT_DOCUMENT_CODE_ACTION, options)
    async def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        document = app.documents.get(params.text_document.uri)
        if document is None:
            return []
        wanted = [str(getattr(k, "value", k)) for k in params.context.only or ()]
        found: list[lsp.CodeAction] = []
        if _wants(wanted, lsp.CodeActionKind.QuickFix):
            found += await _fixes(app, document, params.range)
        if _wants(wanted, lsp.CodeActionKind.RefactorRewrite):
            found += _kernel_actions(app, document, params.range)
        return found

    @app.server.on(lsp.CODE_ACTION_RESOLVE)
    async def resolve(action: lsp.CodeAction) -> lsp.CodeAction:
        data = action.data
        if not isinstance(data, dict) or action.edit is not None:
            return action
        document = app.documents.get(str(data.get("uri")))
        number, generation = data.get("diagnostic"), data.get("generation")
        if document is None or document.generation != generation or not isinstance(number, int):
            app.tell("The file has changed; ask for its fixes again.")
            return action
        diagnostic = _diagnostics(app, document)[number]
        action.edit = await _edit(app, document, diagnostic)
        return action


def _wants(only: list[str], kind: lsp.CodeActionKind) -> bool:
    return not only or any(kind.value == o or kind.value.startswith(f"{o}.") for o in only)


def _diagnostics(app: App, document: Document) -> tuple[Diagnostic, ...]:
    """Diagnostics of the current text; none while the analysis lags behind it."""
    analysed = app.analyses.latest(document.uri)
    if analysed is None or analysed.generation != document.generation:
        return ()
    return analysed.snapshot.diagnostics


async def _fixes(app: App, document: Document, place: lsp.Range) -> list[lsp.CodeAction]:
    found = []
    for number, diagnostic in enumerate(_diagnostics(app, document)):
        fix = diagnostic.fix
        range_ = document.index.span_range(diagnostic.span)
        if fix is None or place.end.line < range_.start.line or range_.end.line < place.start.line:
            continue
        action = lsp.CodeAction(
            title=fix.title,
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[to_lsp(app, document, diagnostic)],
            is_preferred=fix.safe or None,
            data={
                "uri": document.uri,
                "generation": document.generation,
                "diagnostic": number,
            },
        )
        if not app.client.resolves_action_edits:
            action.edit = await _edit(app, document, diagnostic)
            if action.edit is None:
                continue
        found.append(action)
    return found


async def _edit(app: App, document: Document, diagnostic: Diagnostic) -> lsp.WorkspaceEdit | None:
    """The fix of a diagnostic as an edit; None, with a message, if it cannot be made."""
    assert diagnostic.fix is not None
    analysed = app.analyses.latest(document.uri)
    line = diagnostic.span.start.line
    kernel = analysed.snapshot.kernel_at(line) if analysed is not None else None
    details: dict[str, Any] = {"fix": diagnostic.fix, "arguments": None, "target": None}
    if kernel is not None:
        details |= {"arguments": kernel.arguments, "target": kernel.target}
    request = Request(
        str(document.path),
        document.text,
        kernel.qualname if kernel is not None else None,
        app.workbench_settings(document),
        details,
    )
    generation = document.generation
    try:
        new_text = await app.worker.request("fix", request, urgent=True)
    except WorkerError as error:
        app.tell(str(error), lsp.MessageType.Error)
        return None
    if not isinstance(new_text, str) or document.generation != generation:
        app.tell(f"{diagnostic.fix.title}: not possible here.")
        return None
    edits = text_edits(document.index, new_text)
    return workspace_edit(
        document,
        edits,
        app.client,
        label=diagnostic.fix.title,
        description=diagnostic.message,
        confirm=not diagnostic.fix.safe,
    )


def _kernel_actions(app: App, document: Document, place: lsp.Range) -> list[lsp.CodeAction]:
    analysed = app.analyses.latest(document.uri)
    if analysed is None:
        return []
    line = document.earlier_line(place.start.line + 1, analysed.generation)
    kernel = analysed.snapshot.kernel_at(line) if line is not None else None
    if kernel is None:
        return []
    commands = []
    if kernel.lacks:
        commands.append((f"Set arguments of {kernel.name}", "accelopt.setArguments"))
    elif app.configuration_of(document).trusted:
        commands.append((f"Optimize kernel {kernel.name}", "accelopt.optimizeKernel"))
        commands.append((f"Profile kernel {kernel.name}", "accelopt.profileKernel"))
    return [
        lsp.CodeAction(
            title=title,
            kind=lsp.CodeActionKind.RefactorRewrite,
            command=lsp.Command(title, command, arguments=[document.uri, kernel.qualname]),
        )
        for title, command in commands
    ]
