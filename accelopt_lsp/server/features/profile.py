"""``accelopt.profileKernel``: simulate a kernel, verify it, and show what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.server.features.kernels import find_kernel
from accelopt_lsp.server.features.running import Run, report_problem, start_run
from accelopt_lsp.server.snapshot import Outcome, Problem
from accelopt_lsp.server.wording import profile_line

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def register(app: App) -> None:
    @app.server.command("accelopt.profileKernel")
    async def profile(*arguments: object) -> dict[str, str] | None:
        found = await find_kernel(app, arguments)
        if found is None:
            return None
        return start_run(app, found, "profile", f"Profile {found.kernel.name}", done)

    async def done(run: Run, outcome: Outcome) -> None:
        profile = outcome.profile
        if profile is None:
            return
        if profile.correct is False:
            report_problem(app, run, wrong_output(outcome))
        app.profiles[run.uri, run.kernel] = (run.generation, profile)
        verdict = {True: "outputs verified", False: "outputs wrong", None: "outputs not verified"}
        figures = f"{profile_line(profile)}; {verdict[profile.correct]}"
        app.tell(
            f"{run.kernel} on {profile.target}: {figures}",
            lsp.MessageType.Info if profile.correct is not False else lsp.MessageType.Warning,
        )
        app.refresh(diagnostics=False)


def wrong_output(outcome: Outcome) -> Problem:
    """The problem of a kernel whose outputs differ from its reference's."""
    profile = outcome.profile
    error = profile.max_relative_error if profile is not None else None
    figure = f" (relative L2 error {error:.3g})" if error is not None else ""
    return Problem(f"{outcome.kernel}: outputs differ from the reference's{figure}")
