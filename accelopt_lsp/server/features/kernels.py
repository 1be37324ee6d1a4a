"""From a command's arguments, a URI and a kernel's name, to the kernel as it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen
from lsprotocol import types as lsp

from accelopt_lsp.server.documents import Document
from accelopt_lsp.server.snapshot import KernelView

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


@frozen(slots=True)
class FoundKernel:
    """A kernel and the open document that holds it; the analysis is of the current text."""

    document: Document
    kernel: KernelView


async def find_kernel(app: App, arguments: tuple[object, ...]) -> FoundKernel | None:
    """The kernel that a command is about; if there is none, the user is told why.

    A file with a single kernel needs no name.
    """
    uri = arguments[0] if arguments else None
    name = arguments[1] if len(arguments) > 1 else None
    if not isinstance(uri, str) or not isinstance(name, str | None):
        app.tell("This command needs a document's URI and a kernel's name.", lsp.MessageType.Error)
        return None
    notebook = app.server.notebooks.of_cell(uri)
    document = app.documents.get(notebook.uri if notebook is not None else uri)
    if document is None:
        app.tell("Open the kernel's file first.", lsp.MessageType.Warning)
        return None
    latest = app.analyses.latest(document.uri)
    if latest is None or latest.generation != document.generation:
        app.analyses.schedule(document, at_once=True)
    analysed = await app.analyses.current(document)
    snapshot = analysed.snapshot if analysed is not None else None
    if snapshot is not None and name is None and len(snapshot.kernels) == 1:
        return FoundKernel(document, snapshot.kernels[0])
    kernel = snapshot.kernel_named(name) if snapshot is not None and name is not None else None
    if kernel is not None:
        return FoundKernel(document, kernel)
    if snapshot is not None and snapshot.problem is not None:
        app.tell(snapshot.problem, lsp.MessageType.Error)
    else:
        names = ", ".join(k.qualname for k in snapshot.kernels) if snapshot is not None else ""
        wanted = f"no kernel {name!r}" if name else "no single kernel"
        app.tell(
            f"{document.path.name} has {wanted}" + (f"; it has {names}." if names else "."),
            lsp.MessageType.Warning,
        )
    return None
