"""``accelopt.optimizeKernel``: a faster, verified version, applied only when the user says so.

The run works on the text as it was. If the document changed meanwhile, the result is moved to
the current text and verified again, or not offered at all; nothing is ever overwritten.
"""

from __future__ import annotations

import difflib
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import evolve
from lsprotocol import types as lsp

from accelopt_lsp.nki.figures import latency_text
from accelopt_lsp.nki.lines import split_lines
from accelopt_lsp.server.documents import Document, file_name
from accelopt_lsp.server.edits import text_edits, workspace_edit
from accelopt_lsp.server.features.kernels import FoundKernel, find_kernel
from accelopt_lsp.server.features.running import Run, start_run
from accelopt_lsp.server.jobs import JobError
from accelopt_lsp.server.snapshot import Outcome, Request

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

APPLY, VERIFY, SHOW, DISMISS = "Apply", "Verify and apply", "Show diff", "Dismiss"


def register(app: App) -> None:
    @app.server.command("accelopt.optimizeKernel")
    async def optimize(*arguments: Any) -> dict[str, str] | None:
        found = await find_kernel(app, arguments)
        if found is None:
            return None
        if _lacks(app, found):
            return None
        title = f"Optimize {found.kernel.name}"
        return start_run(app, found, "optimize", title, done, _details(app, found))

    @app.server.command("accelopt.optimizeLoop")
    async def optimize_loop(*arguments: Any) -> dict[str, str] | None:
        """Arguments: a URI, a kernel's name, and a line (from 1) of the loop."""
        found = await find_kernel(app, arguments[:2])
        line = arguments[2] if len(arguments) > 2 else None
        if found is None or _lacks(app, found):
            return None
        loop = found.kernel.loop_at(line) if isinstance(line, int) else None
        if loop is None:
            app.tell(f"There is no loop of {found.kernel.name} at line {line}.")
            return None
        lines = (loop.line, loop.end_line)
        details = {**_details(app, found), "lines": lines}
        title = f"Optimize the loop over {loop.variable} of {found.kernel.name}"
        return start_run(app, found, "optimize", title, done, details)

    async def done(run: Run, outcome: Outcome) -> None:
        app.strategies.forget()
        if outcome.unfinished:
            await offer_unfinished(app, run, outcome)
        else:
            await offer(app, run, outcome)

    @app.server.command("accelopt.cancel")
    async def cancel(*arguments: Any) -> bool:
        return bool(arguments) and app.jobs.cancel(str(arguments[0]))

    @app.server.on(lsp.WINDOW_WORK_DONE_PROGRESS_CANCEL)
    async def progress_cancelled(params: lsp.WorkDoneProgressCancelParams) -> None:
        app.jobs.cancel(str(params.token))


def _lacks(app: App, found: FoundKernel) -> bool:
    """Whether a kernel lacks arguments; the user is told."""
    missing = found.kernel.lacks
    if missing:
        app.tell(
            f'{found.kernel.name} needs {", ".join(missing)}: use "Set arguments" first.',
            lsp.MessageType.Warning,
        )
    return bool(missing)


def _details(app: App, found: FoundKernel) -> dict[str, Any]:
    chosen = app.configuration_of(found.document)
    return {
        "budget_seconds": chosen.budget_seconds,
        "agents": chosen.agents,
        "llm": dict(chosen.llm),
    }


async def offer(app: App, run: Run, outcome: Outcome) -> None:
    """Show a finished run's result, and apply it if the user wants it."""
    if outcome.new_text is None or outcome.new_text == run.text:
        app.tell(no_improvement(run, outcome))
        return
    document = app.documents.get(run.uri)
    if document is None:
        app.tell(f"{run.kernel}: its file was closed; nothing was applied.")
        return
    base = run.text
    if document.text != base:
        base = document.text
        rechecked = await recheck(app, run, document, base, outcome)
        if rechecked is None or rechecked.new_text is None:
            app.tell(
                f"{run.kernel} was edited during the run, and the result no longer fits its "
                "text. Nothing was applied.",
                lsp.MessageType.Warning,
            )
            return
        outcome = rechecked
    assert outcome.new_text is not None
    if await agreed(app, run, outcome, base, APPLY, summary(run, outcome)):
        await apply(app, run, outcome, base, outcome.new_text)


async def agreed(app: App, run: Run, outcome: Outcome, base: str, yes: str, question: str) -> bool:
    """Whether the user answers ``yes``, perhaps after a look at the diff."""
    assert outcome.new_text is not None
    if not app.client.applies_edits:
        question += " This editor lets no server change a text; the diff shows what to change."
        if await app.ask(question, [SHOW, DISMISS]) == SHOW:
            await show_diff(app, run, base, outcome.new_text)
        return False
    answers = [yes, SHOW, DISMISS]
    while (answer := await app.ask(question, answers)) == SHOW:
        await show_diff(app, run, base, outcome.new_text)
        answers = [yes, DISMISS]
    return answer == yes


async def offer_unfinished(app: App, run: Run, outcome: Outcome) -> None:
    """Offer the best that a cancelled run had found; it is verified before it is applied."""
    figures = summary(run, evolve(outcome, correct=None))
    question = f"The run was cancelled. Best so far: {figures} Not yet verified on all inputs."
    if not await agreed(app, run, outcome, run.text, VERIFY, question):
        return
    found = await find_kernel(app, (run.uri, run.kernel))
    if found is not None:
        details = {"report": outcome.report}
        start_run(app, found, "recheck", f"Verify {run.kernel}", partial(verified, app), details)


async def verified(app: App, run: Run, outcome: Outcome) -> None:
    """Apply what the user agreed to before it was verified."""
    document = app.documents.get(run.uri)
    if outcome.new_text is None:
        app.tell(
            f"{run.kernel}: the result did not pass the full verification, or no longer fits the "
            "file's text. Nothing was applied.",
            lsp.MessageType.Warning,
        )
    elif document is not None and document.text == run.text:
        await apply(app, run, outcome, run.text, outcome.new_text)
    else:
        await offer(app, run, outcome)


async def recheck(
    app: App, run: Run, document: Document, base: str, outcome: Outcome
) -> Outcome | None:
    """The result for the edited text, verified again; None if it no longer holds."""
    details = {"report": outcome.report}
    settings = app.workbench_settings(document)
    request = Request(str(document.path), base, run.kernel, settings, details)
    try:
        found: Outcome = await app.jobs.run_child(
            "recheck",
            request,
            lambda *_: None,
            allowed=lambda: app.settings.of(document.uri).trusted,
        )
    except JobError:
        return None
    return found if found.problem is None else None


def no_improvement(run: Run, outcome: Outcome) -> str:
    latency = outcome.profile.latency_ms if outcome.profile is not None else None
    figure = f" ({latency_text(latency)})" if latency is not None else ""
    tried = f"{outcome.evaluations} candidate{'s' * (outcome.evaluations != 1)}"
    text = f"No faster version of {run.kernel}{figure} was found; {tried} evaluated."
    return text + "".join(f" {note[0].upper()}{note[1:]}." for note in outcome.notes if note)


def summary(run: Run, outcome: Outcome) -> str:
    """One paragraph: figures before and after, what was changed, how it was verified."""
    before = outcome.profile.latency_ms if outcome.profile is not None else None
    after = outcome.best.latency_ms if outcome.best is not None else None
    parts = [f"{run.kernel}:"]
    if outcome.speedup is not None:
        parts.append(f"{outcome.speedup:.2f}x faster")
    if before is not None and after is not None and outcome.best is not None:
        provenance = outcome.best.provenance
        parts.append(
            f"({latency_text(before)} to {latency_text(after)}, {provenance}, "
            f"{outcome.best.target})"
        )
    text = " ".join(parts) + "."
    if outcome.changes:
        text += f" {'; '.join(outcome.changes)}."
    if outcome.correct:
        reference = outcome.best.reference if outcome.best is not None else None
        against = "the original kernel" if reference == "baseline" else "the reference"
        text += f" Outputs verified against {against}."
    return text + "".join(f" {note[0].upper()}{note[1:]}." for note in outcome.notes if note)


async def apply(app: App, run: Run, outcome: Outcome, base: str, new_text: str) -> None:
    """Send the edit, unless the document has changed since it was offered."""
    document = app.documents.get(run.uri)
    if document is None or document.text != base:
        app.tell(
            f"{run.kernel} was edited since the result was offered; nothing was applied.",
            lsp.MessageType.Warning,
        )
        return
    label = f"Optimize {run.kernel}"
    if outcome.speedup is not None:
        label += f" ({outcome.speedup:.2f}x)"
    edit = workspace_edit(
        document,
        text_edits(document.index, new_text),
        app.client,
        label=label,
        description="; ".join(outcome.changes) or None,
        confirm=True,
    )
    refused = await app.apply(edit, label)
    if refused is not None:
        app.tell(f"{label}: not applied: {refused}", lsp.MessageType.Warning)


async def show_diff(app: App, run: Run, base: str, new_text: str) -> None:
    """Write the diff to a file and have the client show it, or put it in the log."""
    name = run.uri.rpartition("/")[2]
    diff = "".join(difflib.unified_diff(split_lines(base), split_lines(new_text), name, name))
    if await app.show(file_name(run.kernel, ".diff"), diff):
        return
    app.log(diff)
    app.tell("The diff is in the server's log.")
