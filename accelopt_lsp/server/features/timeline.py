"""``accelopt.showTimeline``: simulate a kernel and show its timeline for Perfetto."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelopt_lsp.server.documents import file_name
from accelopt_lsp.server.features.kernels import find_kernel
from accelopt_lsp.server.features.running import Run, start_run
from accelopt_lsp.server.snapshot import Outcome

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def register(app: App) -> None:
    @app.server.command("accelopt.showTimeline")
    async def timeline(*arguments: Any) -> dict[str, str] | None:
        found = await find_kernel(app, arguments)
        if found is None:
            return None
        folder = Path(tempfile.mkdtemp(prefix="timeline-", dir=app.scratch))
        file = folder / file_name(found.kernel.name, ".trace.json")

        async def done(run: Run, outcome: Outcome) -> None:
            if not file.is_file():
                app.tell(f"{run.kernel}: no timeline was written.")
                return
            # A trace is for a viewer; an editor would show megabytes of JSON.
            await app.show_file(file, external=True)
            app.tell(
                f"Timeline of {run.kernel}: open it at ui.perfetto.dev. It is in {file}, until "
                "the editor ends this session."
            )

        title = f"Timeline of {found.kernel.name}"
        return start_run(app, found, "timeline", title, done, {"timeline": str(file)})
