"""``accelopt.explainKernel``: what bounds a kernel, engine by engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accelopt_lsp.server.features.kernels import find_kernel
from accelopt_lsp.server.wording import explain_kernel

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def register(app: App) -> None:
    @app.server.command("accelopt.explainKernel")
    async def explain(*arguments: Any) -> None:
        found = await find_kernel(app, arguments)
        if found is not None:
            app.tell(explain_kernel(app.with_profile(found.document, found.kernel)))
