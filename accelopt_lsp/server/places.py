"""A place in an open document, with what its last analysis says of the code around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.nki.dialects import is_version
from accelopt_lsp.nki.writing.place import Place
from accelopt_lsp.server.documents import Document

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def place_at(app: App, document: Document, position: lsp.Position) -> Place:
    """The place; target and version of the kernel around it, else of the settings."""
    offset = document.index.offset(position)
    target, version = None, None
    latest = app.analyses.latest(document.uri)
    if latest is not None:
        line = document.index.span_position(position).line
        earlier = document.earlier_line(line, latest.generation)
        kernel = latest.snapshot.kernel_at(earlier) if earlier is not None else None
        kernel = kernel or next(iter(latest.snapshot.kernels), None)
        if kernel is not None:
            target, version = kernel.target, kernel.nki_version
    configured = app.workbench_settings(document)
    target = target or configured.get("target")
    version = version or configured.get("nki_version")
    if version is not None and not is_version(version):
        version = None
    return Place(document.text, offset, target, version)
