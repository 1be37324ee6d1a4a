"""Settings: asked for per workspace folder, and again when anything about them changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.server.configuration import concerns_us

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

logger = logging.getLogger(__name__)
SECTION = "accelopt"
PROJECT_FILES = "**/pyproject.toml"


def register(app: App) -> None:
    @app.server.on(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def changed(params: lsp.DidChangeConfigurationParams) -> None:
        values = params.settings
        if app.client.configuration:
            await fetch(app)
        elif isinstance(values, Mapping) and (SECTION in values or concerns_us(values)):
            use(app, values.get(SECTION, values))
            app.reanalyse()

    @app.server.on(lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def folders_changed(params: lsp.DidChangeWorkspaceFoldersParams) -> None:
        app.settings.remove_folders(f.uri for f in params.event.removed)
        app.settings.add_folders(f.uri for f in params.event.added)
        await fetch(app)

    @app.server.on(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def files_changed(params: lsp.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            if change.type == lsp.FileChangeType.Deleted:
                app.clear_project(change.uri)
        app.reanalyse()

    @app.server.on(lsp.SET_TRACE)
    async def trace_changed(params: lsp.SetTraceParams) -> None:
        app.logs.adjust()


def begin(app: App, params: lsp.InitializeParams) -> None:
    """What the client says when it starts us."""
    options = params.initialization_options
    if isinstance(options, Mapping):
        if options.get("trusted") is False:
            app.settings.untrust()
        use(app, options.get("settings"))
        app.settings.base = app.settings.default
    app.settings.add_folders(f.uri for f in params.workspace_folders or ())
    if params.trace is not None:
        app.server.protocol.trace = params.trace
        app.logs.adjust()


async def watch(app: App) -> None:
    """Have the client tell of changes."""
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
        watcher = lsp.FileSystemWatcher(PROJECT_FILES)
        registrations.append(
            lsp.Registration(
                "accelopt-project",
                lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                lsp.DidChangeWatchedFilesRegistrationOptions([watcher]),
            )
        )
    if registrations:
        try:
            await app.server.client_register_capability_async(lsp.RegistrationParams(registrations))
        except Exception as error:
            logger.info("the client refused a registration: %s", error)


async def fetch(app: App) -> None:
    """Ask the client for its settings, of each folder; analyse again if they differ."""
    if not app.client.configuration:
        return
    folders = tuple(app.settings.folders)
    app.settings.fetches += 1
    number = app.settings.fetches
    items = [lsp.ConfigurationItem(section=SECTION)]
    items += [lsp.ConfigurationItem(scope_uri=uri, section=SECTION) for uri in folders]
    try:
        answer = await app.server.workspace_configuration_async(lsp.ConfigurationParams(items))
    except Exception as error:
        logger.warning("the client gave no configuration: %s", error)
        return
    if number != app.settings.fetches:
        return  # asked again since, and that answer is the newer one
    before = (app.settings.default, dict(app.settings.folders))
    for folder, values in zip((None, *folders), answer, strict=False):
        use(app, values, folder)
    if (app.settings.default, app.settings.folders) != before:
        app.reanalyse()


def use(app: App, values: object, folder: str | None = None) -> None:
    """Take over settings; what is wrong with them is said once."""
    problems = app.settings.use(values, folder)
    if folder is None:
        app.logs.choose(app.settings.default.log_level)
        app.jobs.turns.limit = app.settings.default.at_once
    _end_untrusted(app)
    where = "" if folder is None else f" of {Path(folder).name}"
    for problem in problems:
        app.tell(f"AccelOpt settings{where}: {problem}", lsp.MessageType.Warning)


def _end_untrusted(app: App) -> None:
    """Trust was taken away: what runs of such documents ends, as nothing of them may start."""
    ended = [job for job in app.jobs if not app.settings.of(job.key[1]).trusted]
    for job in ended:
        app.jobs.cancel(job.id)
    if any(job.on_cancel is not None for job in ended):
        app.tell(
            "The workspace is no longer trusted: what ran was cancelled.", lsp.MessageType.Warning
        )
