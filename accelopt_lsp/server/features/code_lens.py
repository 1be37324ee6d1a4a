"""Code lenses over each kernel: its figures, and what can be done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.server.wording import lens_title

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def register(app: App) -> None:
    @app.server.on(lsp.TEXT_DOCUMENT_CODE_LENS)
    async def lenses(params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        document = app.documents.get(params.text_document.uri)
        if document is None:
            return []
        configuration = app.configuration_of(document)
        if not configuration.code_lens:
            return []
        analysed = await app.shown_analysis(document, app.client.refreshes_lenses)
        if analysed is None:
            return []
        found = []
        for kernel in analysed.snapshot.kernels:
            line = document.current_line(kernel.first_line, analysed.generation)
            if line is None:
                continue
            place = document.index.line_range(line)
            title = lens_title(app.with_profile(document, kernel))
            commands = [(title, "accelopt.explainKernel")]
            if kernel.lacks:
                commands.append(("Set arguments", "accelopt.setArguments"))
            elif configuration.trusted:
                commands.append(("Optimize", "accelopt.optimizeKernel"))
                commands.append(("Profile", "accelopt.profileKernel"))
                commands.append(("Timeline", "accelopt.showTimeline"))
            commands.append(("Target", "accelopt.switchTarget"))
            found += [
                lsp.CodeLens(
                    place,
                    lsp.Command(title, command, arguments=[document.uri, kernel.qualname]),
                )
                for title, command in commands
            ]
        return found
