"""Code actions: fixes, suppressions, and what can be done with a kernel, a loop, a strategy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from accelopt_lsp.nki.diagnostics import Diagnostic
from accelopt_lsp.server.analyses import WorkerError
from accelopt_lsp.server.documents import Document
from accelopt_lsp.server.edits import text_edits, workspace_edit
from accelopt_lsp.server.features.diagnostics import to_lsp
from accelopt_lsp.server.snapshot import KernelView, Request
from accelopt_lsp.server.strategies import situation

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

FIX_ALL = f"{lsp.CodeActionKind.SourceFixAll.value}.accelopt"
QUICK_FIX = lsp.CodeActionKind.QuickFix.value
REWRITE = lsp.CodeActionKind.RefactorRewrite.value
EXPLAIN = "source.explain.accelopt"
FORGET = "source.forget.accelopt"
FIX, LINE, FILE, ALL = "fix", "ignoreLine", "ignoreFile", "fixAll"
"""What an action edits, in its data."""


def register(app: App) -> None:
    options = lsp.CodeActionOptions(
        code_action_kinds=[QUICK_FIX, REWRITE, FIX_ALL, EXPLAIN, FORGET],
        resolve_provider=True,
    )

    @app.server.on(lsp.TEXT_DOCUMENT_CODE_ACTION, options)
    async def actions(params: lsp.CodeActionParams) -> Sequence[lsp.CodeAction | lsp.Command]:
        document = app.documents.get(params.text_document.uri)
        if document is None:
            return []
        wanted = [str(getattr(k, "value", k)) for k in params.context.only or ()]
        if document.concerns_nki and wanted != [FIX_ALL]:
            # Right after opening, actions are worth a moment of waiting.
            await app.shown_analysis(document, refreshes=True)
        found: list[lsp.CodeAction] = []
        if _wants(wanted, QUICK_FIX):
            found += _fixes(app, document, params.range)
        if _wants(wanted, FIX_ALL):
            found += _fix_all(app, document, asked=bool(wanted))
        found += [a for a in await _kernel_actions(app, document, params.range)
                  if _wants(wanted, str(a.kind))]  # fmt: skip
        if not app.client.action_literals:
            return [a.command for a in found if a.command is not None]
        if not app.client.resolves_action_edits or wanted == [FIX_ALL]:
            found = [a for a in found if await _resolved(app, a, quietly=True)]
        return found

    @app.server.on(lsp.CODE_ACTION_RESOLVE)
    async def resolve(action: lsp.CodeAction) -> lsp.CodeAction:
        await _resolved(app, action)
        return action


def _wants(only: list[str], kind: str) -> bool:
    return not only or any(kind == o or kind.startswith(f"{o}.") for o in only)


def _diagnostics(app: App, document: Document) -> tuple[Diagnostic, ...]:
    """Diagnostics of the current text; none while the analysis lags behind it."""
    analysed = app.analyses.latest(document.uri)
    if analysed is None or analysed.generation != document.generation:
        return ()
    return analysed.snapshot.diagnostics


def _fixes(app: App, document: Document, place: lsp.Range) -> Iterator[lsp.CodeAction]:
    """Fixes of the diagnostics in a range, and comments that switch them off."""
    off: list[lsp.CodeAction] = []
    for number, diagnostic in enumerate(_diagnostics(app, document)):
        range_ = document.index.span_range(diagnostic.span)
        if place.end.line < range_.start.line or range_.end.line < place.start.line:
            continue
        shown = [to_lsp(app, document, diagnostic)]
        code, fix = diagnostic.code, diagnostic.fix
        choices = [(LINE, f"Suppress {code} here"), (FILE, f"Suppress {code} in this file")]
        if fix is not None:
            choices.insert(0, (FIX, fix.title))
        for what, title in choices:
            action = lsp.CodeAction(
                title=title,
                kind=lsp.CodeActionKind.QuickFix,
                diagnostics=shown,
                is_preferred=(fix is not None and fix.safe and what == FIX) or None,
                data=_data(document, what, number),
            )
            if what == FIX:
                yield action
            elif all(action.title != other.title for other in off):
                off.append(action)
    yield from off


def _fix_all(app: App, document: Document, *, asked: bool) -> Iterator[lsp.CodeAction]:
    """All safe fixes at once; who asks for it by its kind, on a save, needs no diagnostics yet."""
    safe = sum(d.fix is not None and d.fix.safe for d in _diagnostics(app, document))
    if document.concerns_nki and (safe or asked):
        yield lsp.CodeAction(
            title="Apply all safe fixes of AccelOpt", kind=FIX_ALL, data=_data(document, ALL)
        )


def _data(document: Document, what: str, number: int | None = None) -> dict[str, Any]:
    return {
        "uri": document.uri,
        "generation": document.generation,
        "edit": what,
        "diagnostic": number,
    }


async def _resolved(app: App, action: lsp.CodeAction, *, quietly: bool = False) -> bool:
    """Give an action its edit; False if it has none and no command.

    Args:
        quietly: the user has not chosen it yet, so that there is nothing to tell.
    """
    data = action.data
    if action.command is not None or action.edit is not None:
        return True
    if not isinstance(data, Mapping):
        return False
    document = app.documents.get(str(data.get("uri")))
    if document is None or document.generation != data.get("generation"):
        if not quietly:
            app.tell("The file has changed; ask for its fixes again.")
        return False
    asked = _asked(app, document, data)
    if asked is None:
        return False
    operation, request, diagnostic = asked
    try:
        new_text = await app.worker.request(operation, request, urgent=True)
    except WorkerError as error:
        app.tell(str(error), lsp.MessageType.Error)
        return False
    if not isinstance(new_text, str) or document.generation != data["generation"]:
        if not quietly:
            app.tell(f"{action.title}: not possible here.")
        return False
    if new_text == document.text:
        return False
    fix = diagnostic.fix if diagnostic is not None and operation == "fix" else None
    action.edit = workspace_edit(
        document,
        text_edits(document.index, new_text),
        app.client,
        label=action.title,
        description=diagnostic.message if diagnostic is not None else None,
        confirm=fix is not None and not fix.safe,
    )
    return True


def _asked(
    app: App, document: Document, data: Mapping[str, Any]
) -> tuple[str, Request, Diagnostic | None] | None:
    """What the worker is asked for an action's edit; None if the data are not as we gave them."""
    path, settings = str(document.path), app.workbench_settings(document)
    what, number = data.get("edit"), data.get("diagnostic")
    if what == ALL:
        return "fix_all", Request(path, document.text, settings=settings), None
    known = _diagnostics(app, document)
    if what not in (FIX, LINE, FILE) or type(number) is not int or not 0 <= number < len(known):
        return None
    diagnostic = known[number]
    if what == FIX and diagnostic.fix is None:
        return None
    line = diagnostic.span.start.line
    if what in (LINE, FILE):
        details = {"code": diagnostic.code, "line": line if what == LINE else None}
        return "suppress", Request(path, document.text, None, settings, details), diagnostic
    analysed = app.analyses.latest(document.uri)
    kernel = analysed.snapshot.kernel_at(line) if analysed is not None else None
    about: dict[str, Any] = {"fix": diagnostic.fix, "arguments": None, "target": None}
    if kernel is not None:
        about |= {"arguments": kernel.arguments, "target": kernel.target}
    name = kernel.qualname if kernel is not None else None
    return "fix", Request(path, document.text, name, settings, about), diagnostic


async def _kernel_actions(app: App, document: Document, place: lsp.Range) -> list[lsp.CodeAction]:
    """What can be done with the kernel at a place, with its loop, and with what was learned."""
    analysed = app.analyses.latest(document.uri)
    if analysed is None:
        return []
    line = document.earlier_line(place.start.line + 1, analysed.generation)
    kernel = analysed.snapshot.kernel_at(line) if line is not None else None
    if kernel is None or line is None:
        return []
    trusted = app.configuration_of(document).trusted
    actions = [
        _command(REWRITE, title, command, [document.uri, kernel.qualname, *more])
        for title, command, more in _commands(kernel, line, trusted, document, analysed.generation)
    ]
    name = [document.uri, kernel.qualname]
    explained = f"Explain what bounds {kernel.name}"
    actions.append(_command(EXPLAIN, explained, "accelopt.explainKernel", name))
    work = kernel.workload
    if work is not None and any(w.line == line for w in work.lines):
        for one in await app.strategies.of(situation(app.with_profile(document, kernel), line)):
            title = f'Forget the strategy "{one.title}"'
            arguments = [one.id, one.title]
            actions.append(_command(FORGET, title, "accelopt.forgetStrategy", arguments))
    return actions


def _commands(
    kernel: KernelView, line: int, trusted: bool, document: Document, generation: int
) -> Iterator[tuple[str, str, list[Any]]]:
    """Title, command and further arguments of what works on a kernel."""
    if kernel.lacks:
        yield f"Set arguments of {kernel.name}", "accelopt.setArguments", []
    elif trusted:
        yield f"Optimize kernel {kernel.name}", "accelopt.optimizeKernel", []
        loop = kernel.loop_at(line)
        now = document.current_line(loop.line, generation) if loop is not None else None
        if loop is not None and now is not None:
            title = f"Optimize this loop over {loop.variable}"
            yield title, "accelopt.optimizeLoop", [now]
        yield f"Profile kernel {kernel.name}", "accelopt.profileKernel", []
        yield f"Show timeline of {kernel.name}", "accelopt.showTimeline", []
    yield f"Switch target of {kernel.name} ({kernel.target})", "accelopt.switchTarget", []


def _command(kind: str, title: str, command: str, arguments: list[Any]) -> lsp.CodeAction:
    return lsp.CodeAction(
        title=title, kind=kind, command=lsp.Command(title, command, arguments=arguments)
    )
