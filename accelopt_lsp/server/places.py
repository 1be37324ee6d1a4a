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


def dotted_at(text: str, offset: int) -> tuple[str, int, int] | None:
    """The dotted name at a place, up to the part that the place is in.

    Returns:
        The name without blanks, where it begins and where that part ends; None without a name.
    """
    start = end = offset
    while end < len(text) and (text[end] == "_" or text[end].isalnum()):
        end += 1
    while start > 0 and (text[start - 1] in "_." or text[start - 1].isalnum()):
        start -= 1
    name = text[start:end]
    start += len(name) - len(name.lstrip("."))
    name = name.lstrip(".")
    if not name or name.endswith(".") or name[0].isdigit():
        return None
    return name, start, end
