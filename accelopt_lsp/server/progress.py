"""Work-done progress that the server creates: clients rarely send a token of their own."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

LEAST_INTERVAL_SECONDS = 0.1
PATIENCE_SECONDS = 2.0
"""How long a run waits for the client's consent to show its progress."""


class Progress:
    """One progress bar. Its token is the job's id, by which the client cancels the job.

    Without the client's support nothing is sent but the final message, to the log.
    """

    def __init__(self, app: App, token: str) -> None:
        self._app = app
        self._token = token
        self._shown = False
        self._over = False
        self._last = 0.0
        self._percentage = 0

    async def begin(self, title: str) -> None:
        if not self._app.client.progress:
            return
        progress = self._app.server.work_done_progress
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await progress.create_async(self._token)
        except Exception as error:
            why = "it does not answer" if isinstance(error, TimeoutError) else str(error)
            self._app.log(f"the client shows no progress: {why}")
            return
        if self._over:
            return  # cancelled while the client was asked
        progress.begin(
            self._token, lsp.WorkDoneProgressBegin(title=title, cancellable=True, percentage=0)
        )
        self._shown = True

    def report(self, message: str, share: float | None = None) -> None:
        """Show a message and, where it is known, the share that is done (0 to 1)."""
        now = time.monotonic()
        if not self._shown or self._over or now - self._last < LEAST_INTERVAL_SECONDS:
            return
        self._last = now
        if share is not None:
            # LSP: the percentage never falls.
            self._percentage = max(self._percentage, min(100, max(0, round(100 * share))))
        self._app.server.work_done_progress.report(
            self._token,
            lsp.WorkDoneProgressReport(
                message=message, cancellable=True, percentage=self._percentage
            ),
        )

    def end(self, message: str) -> None:
        """Close the bar; later calls do nothing."""
        if self._over:
            return
        self._over = True
        if self._shown:
            progress = self._app.server.work_done_progress
            progress.end(self._token, lsp.WorkDoneProgressEnd(message=message))
            progress.tokens.pop(self._token, None)
        self._app.log(message)
