"""``accelopt.setArguments``: inserts a directive above a kernel for the user to fill in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from accelopt_lsp.server.edits import workspace_edit
from accelopt_lsp.server.features.kernels import find_kernel

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def register(app: App) -> None:
    @app.server.command("accelopt.setArguments")
    async def set_arguments(*arguments: Any) -> None:
        found = await find_kernel(app, arguments)
        if found is None:
            return
        document, kernel = found.document, found.kernel
        text = document.index.line(kernel.first_line - 1)
        indent = text[: len(text) - len(text.lstrip())]
        newline = "\r\n" if "\r\n" in document.text else "\n"
        start = lsp.Position(kernel.first_line - 1, 0)
        insertion = lsp.TextEdit(
            lsp.Range(start, start), f"{indent}{kernel.directive.strip()}{newline}"
        )
        label = f"Set arguments of {kernel.name}"
        refused = await app.apply(
            workspace_edit(document, [insertion], app.client, label=label), label
        )
        if refused is not None:
            app.tell(
                f"Put this line above {kernel.name}: {kernel.directive.strip()} ({refused})",
                lsp.MessageType.Warning,
            )
