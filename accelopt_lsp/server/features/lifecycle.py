"""Start and end of a session."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from accelopt_lsp.server.analyses import WorkerError
from accelopt_lsp.server.channel import kill_all_children
from accelopt_lsp.server.client import read_client
from accelopt_lsp.server.features import settings

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

logger = logging.getLogger(__name__)
WATCH_SECONDS = 2.0


def register(app: App) -> None:
    @app.server.on(lsp.INITIALIZE)
    async def initialize(params: lsp.InitializeParams) -> None:
        app.client = read_client(params.capabilities)
        encoding = app.server.protocol.workspace.position_encoding
        app.documents.encoding = str(getattr(encoding, "value", encoding) or "utf-16")
        settings.begin(app, params)
        watched = params.process_id if app.stdio and os.name == "posix" else None
        if watched is not None and _lives(watched):
            app.spawn(_watch(app, watched))

    @app.server.on(lsp.INITIALIZED)
    async def initialized(params: lsp.InitializedParams) -> None:
        app.running = True
        app.spawn(_warm(app))
        await settings.fetch(app)
        await settings.watch(app)

    @app.server.on(lsp.SHUTDOWN)
    async def shutdown(params: Any) -> None:
        app.running = False
        await app.close()


async def _warm(app: App) -> None:
    try:
        await app.worker.request("warm", None)
    except WorkerError as error:
        app.log(str(error), lsp.MessageType.Error)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


async def _watch(app: App, pid: int) -> None:
    """End with the editor, should it die without closing our input."""
    while _lives(pid):  # noqa: ASYNC110 - another process sets no event of ours
        await asyncio.sleep(WATCH_SECONDS)
    logger.warning("the client has gone")
    kill_all_children()
    app.clean()
    os._exit(1)
