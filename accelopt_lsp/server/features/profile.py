"""``accelopt.profileKernel``: simulate a kernel, verify it, and show what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accelopt_lsp.server.features.kernels import find_kernel
from accelopt_lsp.server.features.running import Run, start_run
from accelopt_lsp.server.snapshot import Outcome
from accelopt_lsp.server.wording import profile_line

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def register(app: App) -> None:
    @app.server.command("accelopt.profileKernel")
    async def profile(*arguments: Any) -> dict[str, str] | None:
        found = await find_kernel(app, arguments)
        if found is None:
            return None
        return start_run(app, found, "profile", f"Profile {found.kernel.name}", done)

    async def done(run: Run, outcome: Outcome) -> None:
        profile = outcome.profile
        if profile is None:
            return
        app.profiles[run.uri, run.kernel] = (run.generation, profile)
        verdict = "outputs verified" if profile.correct else "outputs not verified"
        app.tell(f"{run.kernel} on {profile.target}: {profile_line(profile)}; {verdict}.")
        document = app.documents.get(run.uri)
        if document is not None and document.generation == run.generation:
            # Its figures are known now, and take the place of estimates.
            app.analyses.schedule(document, at_once=True)
        app.refresh(diagnostics=False)
