"""Diagnostics of files that are not open, for clients that ask and users who want them.

What ``check`` finds in a workspace folder, from its cache where it knows it. The first request is
answered when that is done; the next ones wait until something was saved or set.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.nki.diagnostics import covers
from accelopt_lsp.server.configuration import Configuration
from accelopt_lsp.server.documents import Document, file_of
from accelopt_lsp.server.features.diagnostics import to_lsp
from accelopt_lsp.server.jobs import JobError
from accelopt_lsp.server.snapshot import CheckedFile, Request

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

logger = logging.getLogger(__name__)
OPERATION = "check"
Report = lsp.WorkspaceFullDocumentDiagnosticReport | lsp.WorkspaceUnchangedDocumentDiagnosticReport


def register(app: App) -> None:
    turn = asyncio.Lock()
    answered = False

    @app.server.on(lsp.WORKSPACE_DIAGNOSTIC)
    async def pull(params: lsp.WorkspaceDiagnosticParams) -> lsp.WorkspaceDiagnosticReport:
        nonlocal answered
        previous = {p.uri: p.value for p in params.previous_result_ids}
        if _wanted(app) and answered:
            await app.workspace_changed.wait()
        folders = _wanted(app)
        async with turn:
            app.workspace_changed.clear()
            found: dict[str, list[lsp.Diagnostic]] = {}
            for uri, configuration in folders.items():
                found |= await _check(app, uri, configuration)
            answered = bool(folders)
        return lsp.WorkspaceDiagnosticReport(_reports(app, found, previous))


def _wanted(app: App) -> dict[str, Configuration]:
    """Workspace folders whose files are all to be checked, with their settings."""
    folders = {uri: app.settings.of(f"{uri.rstrip('/')}/") for uri in app.settings.folders}
    return {
        uri: configuration
        for uri, configuration in folders.items()
        if configuration.workspace_diagnostics and configuration.diagnostics != "off"
    }


async def _check(
    app: App, uri: str, configuration: Configuration
) -> dict[str, list[lsp.Diagnostic]]:
    """What is found in one folder, by file."""
    folder = file_of(uri)
    if folder is None:
        return {}
    request = Request(str(folder), "", settings=dict(configuration.workbench))
    try:
        files: tuple[CheckedFile, ...] = await app.jobs.run_child(
            OPERATION, request, lambda *_: None, background=True
        )
    except JobError as error:
        logger.warning("no diagnostics of %s: %s", folder, error)
        return {}
    ignored = configuration.workbench.get("ignore", ())
    if not isinstance(ignored, list) or not all(isinstance(code, str) for code in ignored):
        ignored = ()  # what is wrong with it is said where a document is analysed
    found = {}
    for file in files:
        path = Path(file.path)
        document = Document(path.as_uri(), path, file.text, None, app.documents.encoding)
        found[document.uri] = [
            to_lsp(app, document, d) for d in file.diagnostics if not covers(ignored, d.code)
        ]
    return found


def _reports(
    app: App, found: dict[str, list[lsp.Diagnostic]], previous: dict[str, str]
) -> list[Report]:
    """Open documents answer for themselves; files that are clean now say so once."""
    reports: list[Report] = []
    for uri in dict.fromkeys((*found, *previous)):
        if app.documents.get(uri) is not None:
            continue
        items = found.get(uri, [])
        result = hashlib.sha256(repr(items).encode("utf-8", "replace")).hexdigest()[:16]
        if previous.get(uri) == result:
            reports.append(lsp.WorkspaceUnchangedDocumentDiagnosticReport(uri, result))
        else:
            reports.append(lsp.WorkspaceFullDocumentDiagnosticReport(uri, items, result_id=result))
    return reports
