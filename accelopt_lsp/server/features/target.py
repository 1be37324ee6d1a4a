"""``accelopt.switchTarget``: another generation for a kernel, in its directive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from accelopt_lsp.nki.targets import get_target, target_names
from accelopt_lsp.server.analyses import WorkerError
from accelopt_lsp.server.edits import text_edits, workspace_edit
from accelopt_lsp.server.features.kernels import FoundKernel, find_kernel
from accelopt_lsp.server.snapshot import Request

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def register(app: App) -> None:
    @app.server.command("accelopt.switchTarget")
    async def switch(*arguments: Any) -> None:
        found = await find_kernel(app, arguments[:2])
        if found is None:
            return
        wanted = arguments[2] if len(arguments) > 2 else None
        if wanted is None:
            now = found.kernel.target
            others = [name for name in target_names() if name != now]
            wanted = await app.ask(f"{found.kernel.name} is for {now}. Switch to:", others)
        if wanted is None:
            return
        try:
            target = get_target(str(wanted)).name
        except ValueError as error:
            app.tell(str(error), lsp.MessageType.Error)
            return
        await _write(app, found, target)


async def _write(app: App, found: FoundKernel, target: str) -> None:
    """Put the target into the kernel's directive; without edits it counts for this session."""
    document, kernel = found.document, found.kernel
    generation = document.generation
    request = Request(
        str(document.path), document.text, kernel.qualname, details={"target": target}
    )
    try:
        new_text = await app.worker.request("retarget", request, urgent=True)
    except WorkerError as error:
        app.tell(str(error), lsp.MessageType.Error)
        return
    if not isinstance(new_text, str) or document.generation != generation:
        app.tell(f"{kernel.name} has changed; choose its target again.")
        return
    label = f"Target of {kernel.name}: {target}"
    edit = workspace_edit(document, text_edits(document.index, new_text), app.client, label=label)
    refused = await app.apply(edit, label)
    if refused is not None:
        app.targets[document.uri] = target
        app.tell(
            f"{document.path.name} is analysed for {target} in this session, where its kernels "
            f"name no target themselves ({refused})."
        )
        app.analyses.schedule(document, at_once=True)
