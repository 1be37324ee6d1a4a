"""``accelopt.explainKernel``: a page about what bounds a kernel and what could be gained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accelopt_lsp.server.documents import file_name
from accelopt_lsp.server.explanation import explanation
from accelopt_lsp.server.features.kernels import find_kernel
from accelopt_lsp.server.strategies import situation
from accelopt_lsp.server.wording import explain_kernel

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def register(app: App) -> None:
    @app.server.command("accelopt.explainKernel")
    async def explain(*arguments: Any) -> None:
        found = await find_kernel(app, arguments)
        if found is None:
            return
        kernel = app.with_profile(found.document, found.kernel)
        learned = await app.strategies.of(situation(kernel))
        page = explanation(kernel, found.document.text.split("\n"), learned)
        if not await app.show(file_name(kernel.name, ".md"), page):
            app.tell(explain_kernel(kernel))
