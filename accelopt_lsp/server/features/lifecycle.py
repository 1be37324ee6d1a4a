"""Start, settings and end of a session."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from accelopt_lsp.server.analyses import WorkerError
from accelopt_lsp.server.channel import kill_all_children
from accelopt_lsp.server.client import read_client
from accelopt_lsp.server.configuration import Configuration, read_configuration

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

logger = logging.getLogger(__name__)
SECTION = "accelopt"
WATCH_SECONDS = 2.0


def register(app: App) -> None:
    base = Configuration()

    @app.server.on(lsp.INITIALIZE)
    async def initialize(params: lsp.InitializeParams) -> None:
        nonlocal base
        app.client = read_client(params.capabilities)
        encoding = app.server.protocol.workspace.position_encoding
        app.documents.encoding = str(getattr(encoding, "value", encoding) or "utf-16")
        options = params.initialization_options
        if isinstance(options, Mapping):
            if options.get("trusted") is False:
                app.untrust()
            base = app.configuration
            use(options.get("settings"))
        watched = params.process_id if app.stdio and os.name == "posix" else None
        if watched is not None and _lives(watched):
            app.spawn(_watch(watched))

    @app.server.on(lsp.INITIALIZED)
    async def initialized(params: lsp.InitializedParams) -> None:
        app.spawn(_warm(app))
        registrations = []
        if app.client.registers_configuration:
            registrations.append(
                lsp.Registration(
                    "accelopt-configuration",
                    lsp.WORKSPACE_DID_CHANGE_CONFIGURATION,
                    lsp.DidChangeConfigurationRegistrationOptions(section=SECTION),
                )
            )
        if app.client.registers_watchers:
            watcher = lsp.FileSystemWatcher("**/pyproject.toml")
            registrations.append(
                lsp.Registration(
                    "accelopt-project",
                    lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                    lsp.DidChangeWatchedFilesRegistrationOptions([watcher]),
                )
            )
        await fetch()
        if registrations:
            try:
                await app.server.client_register_capability_async(
                    lsp.RegistrationParams(registrations)
                )
            except Exception as error:
                logger.info("the client refused a registration: %s", error)

    @app.server.on(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def changed(params: lsp.DidChangeConfigurationParams) -> None:
        if app.client.configuration:
            await fetch()
        elif isinstance(params.settings, Mapping):
            use(params.settings.get(SECTION, params.settings))
            app.reanalyse()

    @app.server.on(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def files_changed(params: lsp.DidChangeWatchedFilesParams) -> None:
        app.reanalyse()

    @app.server.on(lsp.SHUTDOWN)
    async def shutdown(params: Any) -> None:
        await app.close()

    async def fetch() -> None:
        """Ask the client for its settings; analyse again if they differ."""
        if not app.client.configuration:
            return
        item = lsp.ConfigurationItem(section=SECTION)
        try:
            answer = await app.server.workspace_configuration_async(lsp.ConfigurationParams([item]))
        except Exception as error:
            logger.warning("the client gave no configuration: %s", error)
            return
        before = app.configuration
        use(answer[0] if answer else None)
        if app.configuration != before:
            app.reanalyse()

    def use(values: object) -> None:
        app.configuration, problems = read_configuration(values, base)
        for problem in problems:
            app.tell(f"AccelOpt settings: {problem}", lsp.MessageType.Warning)


async def _warm(app: App) -> None:
    try:
        await app.worker.request("warm", None)
    except WorkerError as error:
        app.log(str(error), lsp.MessageType.Error)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


async def _watch(pid: int) -> None:
    """End with the editor, should it die without closing our input."""
    while _lives(pid):  # noqa: ASYNC110 - another process sets no event of ours
        await asyncio.sleep(WATCH_SECONDS)
    logger.warning("the client has gone")
    kill_all_children()
    os._exit(1)
