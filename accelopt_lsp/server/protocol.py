"""pygls' protocol and server with what we do differently.

Documents are ours (lines end where LSP says, edits are remembered), errors go to the log
instead of pop-ups, futures of finished notifications are dropped, and every request is answered:
also one that makes no sense, comes too early or comes too late.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import Any

from attrs import evolve, frozen
from cattrs import Converter
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException, JsonRpcInternalError
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

import accelopt_lsp
from accelopt_lsp.server.channel import kill_all_children
from accelopt_lsp.server.documents import Documents
from accelopt_lsp.server.notebooks import SYNC, Notebooks

logger = logging.getLogger(__name__)


@frozen(slots=True)
class Refused:
    """A message that cannot be handled, and what to answer to it if it is a request."""

    error: lsp.ResponseError
    id: str | int | None = None


class Protocol(LanguageServerProtocol):
    """Feeds our documents, in the order of the messages, before any handler runs."""

    _server: Server
    _ending = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._cells: dict[str | int, str] = {}

    @lsp_method(lsp.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(
        self, params: lsp.DidOpenTextDocumentParams
    ) -> Generator[Any, Any, None]:
        self._server.documents.open(params.text_document)
        yield from self._user_handler(lsp.TEXT_DOCUMENT_DID_OPEN, params)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(
        self, params: lsp.DidChangeTextDocumentParams
    ) -> Generator[Any, Any, None]:
        self._server.documents.change(params)
        yield from self._user_handler(lsp.TEXT_DOCUMENT_DID_CHANGE, params)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(
        self, params: lsp.DidCloseTextDocumentParams
    ) -> Generator[Any, Any, None]:
        self._server.documents.close(params.text_document.uri)
        yield from self._user_handler(lsp.TEXT_DOCUMENT_DID_CLOSE, params)

    @lsp_method(lsp.NOTEBOOK_DOCUMENT_DID_OPEN)
    def lsp_notebook_document__did_open(
        self, params: lsp.DidOpenNotebookDocumentParams
    ) -> Generator[Any, Any, None]:
        document = self._server.notebooks.open(params)
        item = lsp.TextDocumentItem(document.uri, "python", document.version or 0, document.text)
        opened = lsp.DidOpenTextDocumentParams(item)
        yield from self._user_handler(lsp.TEXT_DOCUMENT_DID_OPEN, opened)

    @lsp_method(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(
        self, params: lsp.DidChangeNotebookDocumentParams
    ) -> Generator[Any, Any, None]:
        document = self._server.notebooks.change(params)
        if document is not None:
            whole = lsp.VersionedTextDocumentIdentifier(document.version or 0, document.uri)
            changed = lsp.DidChangeTextDocumentParams(whole, [])
            yield from self._user_handler(lsp.TEXT_DOCUMENT_DID_CHANGE, changed)

    @lsp_method(lsp.NOTEBOOK_DOCUMENT_DID_SAVE)
    def lsp_notebook_document__did_save(
        self, params: lsp.DidSaveNotebookDocumentParams
    ) -> Generator[Any, Any, None]:
        whole = lsp.TextDocumentIdentifier(params.notebook_document.uri)
        saved = lsp.DidSaveTextDocumentParams(whole)
        yield from self._user_handler(lsp.TEXT_DOCUMENT_DID_SAVE, saved)

    @lsp_method(lsp.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def lsp_notebook_document__did_close(
        self, params: lsp.DidCloseNotebookDocumentParams
    ) -> Generator[Any, Any, None]:
        uri = params.notebook_document.uri
        notebook = self._server.notebooks.get(uri)
        self._server.documents.close(uri)
        closed = lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(uri))
        yield from self._user_handler(lsp.TEXT_DOCUMENT_DID_CLOSE, closed)
        if notebook is not None:
            self._server.notebooks.forget(notebook)

    def _user_handler(self, method: str, params: Any) -> Generator[Any, Any, None]:
        handler = self.fm.features.get(method)
        if handler is not None:
            yield handler, (params,), None

    @lsp_method(lsp.EXIT)
    def lsp_exit(self, *args: Any) -> Generator[Any, Any, None]:
        kill_all_children()
        yield from super().lsp_exit(*args)

    @lsp_method(lsp.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Generator[Any, Any, None]:
        self._ending = True
        yield from self._user_handler(lsp.SHUTDOWN, *args)
        current = self.msg_id
        # A copy: futures of commands leave when they are cancelled.
        for number, future in tuple(self._request_futures.items()):
            if number != current and not future.done():
                future.cancel()
        self._shutdown = True

    def structure_message(self, data: dict[str, Any]) -> Any:
        if "method" in data and self.get_message_type(data["method"]) is None:
            data = {"params": None, **data}  # messages that pygls does not know must have some
        if data.get("method") == lsp.TEXT_DOCUMENT_DID_CHANGE:
            data = _without_null_ranges(data)
        number = data.get("id") if "method" in data else None
        if data.get("method") == lsp.INITIALIZE:
            data = _readable(data, self._converter)
        try:
            message = super().structure_message(data)
        except JsonRpcException as error:
            if "method" not in data:
                # Whoever waits for this answer must not wait for ever.
                self._fail(data.get("id"))
            return Refused(error.to_response_error(), number)
        if number is not None and not hasattr(message, "id"):
            why = f"{data['method']} is a notification"
            return Refused(lsp.ResponseError(lsp.ErrorCodes.InvalidRequest, why), number)
        return message

    def _fail(self, number: Any) -> None:
        """A request of ours was answered by what is no answer to it."""
        future = self._request_futures.pop(number, None)
        if future is not None and not future.done():
            future.set_exception(JsonRpcInternalError("its answer could not be read"))

    def handle_message(self, message: Any) -> None:
        refused = message if isinstance(message, Refused) else self._untimely(message)
        if refused is None:
            try:
                message = self._inwards(message)
            except Exception as error:
                # Whatever becomes of it, a request is answered.
                logger.exception("a message about a notebook could not be read")
                failure = lsp.ResponseError(lsp.ErrorCodes.InternalError, str(error))
                refused = Refused(failure, getattr(message, "id", None))
        if refused is None:
            super().handle_message(message)
        elif refused.id is not None:
            self._send_response(refused.id, error=refused.error)

    def _inwards(self, message: Any) -> Any:
        """What is said about a notebook's cell is about the notebook's document."""
        params, notebooks = getattr(message, "params", None), self._server.notebooks
        if isinstance(params, lsp.ExecuteCommandParams):
            arguments = list(params.arguments or ())
            notebook = notebooks.of_cell(arguments[0]) if arguments else None
            if notebook is not None:
                params.arguments = [notebook.uri, *arguments[1:]]
            return message
        cell = getattr(getattr(params, "text_document", None), "uri", None)
        # Texts of cells come with their notebook; another notification changes nothing of it.
        if getattr(message, "id", None) is not None and notebooks.of_cell(cell) is not None:
            message.params = notebooks.inwards(params, str(cell))
            self._cells[message.id] = str(cell)
        return message

    def _send_response(
        self,
        msg_id: str | int,
        result: Any | None = None,
        error: lsp.ResponseError | None = None,
    ) -> None:
        cell = self._cells.pop(msg_id, None)
        if error is None:
            try:
                result = self._server.notebooks.outwards(result, cell)
            except ValueError as reason:
                error = lsp.ResponseError(lsp.LSPErrorCodes.RequestFailed, str(reason))
            except Exception as reason:
                logger.exception("an answer about a notebook could not be given to its cell")
                error = lsp.ResponseError(lsp.ErrorCodes.InternalError, str(reason))
        super()._send_response(msg_id, result, error)

    def notify(self, method: str, params: Any | None = None) -> None:
        if isinstance(params, lsp.PublishDiagnosticsParams):
            for part in self._server.notebooks.published(params):
                super().notify(method, part)
        else:
            super().notify(method, params)

    def send_request(
        self, method: str, params: Any | None = None, *args: Any, **options: Any
    ) -> Any:
        if isinstance(params, lsp.ApplyWorkspaceEditParams):
            params = evolve(params, edit=self._server.notebooks.edit(params.edit))
        return super().send_request(method, params, *args, **options)

    def _untimely(self, message: Any) -> Refused | None:
        """Why a message is not handled at this time, if it is not."""
        method = getattr(message, "method", None)
        number = getattr(message, "id", None) if method is not None else None
        if method == lsp.EXIT:
            return None
        if self._ending:
            error = lsp.ResponseError(lsp.ErrorCodes.InvalidRequest, "the server is shutting down")
            return Refused(error, number)
        if method is not None and (method == lsp.INITIALIZE) is not (self._workspace is None):
            begun = self._workspace is not None
            code = lsp.ErrorCodes.InvalidRequest if begun else lsp.ErrorCodes.ServerNotInitialized
            what = "initialized already" if begun else "not initialized yet"
            return Refused(lsp.ResponseError(code, f"the server is {what}"), number)
        return None

    def _handle_cancel_notification(self, msg_id: str | int) -> None:
        if msg_id in self._request_futures:  # else it was answered meanwhile
            super()._handle_cancel_notification(msg_id)

    def _execute_handler(
        self,
        msg_id: str | int,
        handler: Any,
        callback: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        super()._execute_handler(msg_id, handler, callback, args, kwargs)
        future: Any = self._request_futures.get(msg_id)
        if isinstance(future, asyncio.Future):
            # pygls forgets to drop those of notifications, one a keystroke.
            future.add_done_callback(lambda _: self._request_futures.pop(msg_id, None))


def _readable(data: dict[str, Any], converter: Converter) -> dict[str, Any]:
    """``initialize`` without the abilities that cannot be read: a newer client has newer ones.

    One value that we do not know must not cost all the others.
    """
    params = data.get("params")
    known = params.get("capabilities") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(known, dict):
        return data
    workspace = known.get("workspace")
    if isinstance(workspace, dict) and "diagnostic" in workspace:
        # The Rust package lsp-types, hence Helix and Zed, spells it like this.
        known = {**known, "workspace": {"diagnostics": workspace["diagnostic"], **workspace}}
        data = {**data, "params": {**params, "capabilities": known}}
        params = data["params"]

    def fits(**part: Any) -> bool:
        try:
            converter.structure({"capabilities": {}, **part}, lsp.InitializeParams)
        except Exception:  # noqa: BLE001 - whatever it was, it could not be read
            return False
        return True

    if fits(**params):
        return data
    kept: dict[str, Any] = {}
    for group, abilities in known.items():
        if fits(capabilities={group: abilities}):
            kept[group] = abilities
        elif isinstance(abilities, dict):
            kept[group] = {
                name: value
                for name, value in abilities.items()
                if fits(capabilities={group: {name: value}})
            }
            lost = ", ".join(name for name in abilities if name not in kept[group])
            logger.warning("not understood of the client's %s: %s", group, lost)
    others = {k: v for k, v in params.items() if k != "capabilities" and fits(**{k: v})}
    return {**data, "params": {**others, "capabilities": kept}}


def _without_null_ranges(data: dict[str, Any]) -> dict[str, Any]:
    """Changes whose range is null replace everything, as those without one do.

    They would be refused otherwise, and with them all that was typed.
    """
    params = data.get("params")
    if not isinstance(params, dict) or not isinstance(params.get("contentChanges"), list):
        return data
    cleaned = [
        {k: v for k, v in change.items() if (k, v) != ("range", None)}
        if isinstance(change, dict)
        else change
        for change in params["contentChanges"]
    ]
    return {**data, "params": {**params, "contentChanges": cleaned}}


class Server(LanguageServer):
    """The LSP endpoint. Features are registered on it by the app."""

    protocol: Protocol

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.notebooks = Notebooks(documents)
        super().__init__(
            "accelopt",
            accelopt_lsp.__version__,
            text_document_sync_kind=lsp.TextDocumentSyncKind.Incremental,
            notebook_document_sync=SYNC,
            protocol_cls=Protocol,
        )

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log errors outside requests; a pop-up would help nobody."""
        if isinstance(error, JsonRpcException) and not isinstance(error, JsonRpcInternalError):
            logger.warning("%s", error)  # the client asked for what there is not
            return
        logger.error("%s: %s", type(error).__name__, error, exc_info=error)

    def on(self, method: str, options: Any = None) -> Callable[[Any], Any]:
        """Decorator that registers a handler."""
        return self.feature(method, options)
