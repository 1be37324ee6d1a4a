"""What the tree of a document showed last."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from accelopt_lsp.server.analyses import Analysed
from accelopt_lsp.server.documents import Document

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

PATIENCE_SECONDS = 1.0
"""How long a request waits for the tree of a new text before an older one will do."""


async def outline_of(app: App, document: Document) -> Analysed | None:
    """The newest outline of a document that concerns NKI; None while there is none."""
    if not document.concerns_nki:
        return None
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(app.analyses.readable(document), PATIENCE_SECONDS)
    found = [app.analyses.syntax(document.uri), app.analyses.latest(document.uri)]
    return next((a for a in found if a is not None and a.snapshot.outline is not None), None)
