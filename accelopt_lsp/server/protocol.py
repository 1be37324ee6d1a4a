"""pygls' protocol and server with what we do differently.

Documents are ours (lines end where LSP says, edits are remembered), errors go to the log
instead of pop-ups, and futures of finished notifications are dropped.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any

from lsprotocol import types as lsp
from pygls.io_ import run_async
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

import accelopt_lsp
from accelopt_lsp.server.channel import kill_all_children
from accelopt_lsp.server.documents import Documents

logger = logging.getLogger(__name__)


class Protocol(LanguageServerProtocol):
    """Feeds our documents, in the order of the messages, before any handler runs."""

    _server: Server

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

    def _user_handler(self, method: str, params: Any) -> Generator[Any, Any, None]:
        handler = self.fm.features.get(method)
        if handler is not None:
            yield handler, (params,), None

    @lsp_method(lsp.EXIT)
    def lsp_exit(self, *args: Any) -> Generator[Any, Any, None]:
        kill_all_children()
        yield from super().lsp_exit(*args)

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


class Server(LanguageServer):
    """The LSP endpoint. Features are registered on it by the app."""

    protocol: Protocol

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        super().__init__(
            "accelopt",
            accelopt_lsp.__version__,
            text_document_sync_kind=lsp.TextDocumentSyncKind.Incremental,
            protocol_cls=Protocol,
        )

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log errors outside requests; a pop-up would help nobody."""
        logger.error("%s: %s", type(error).__name__, error, exc_info=error)

    def serve_one(self, host: str, port: int) -> None:
        """Serve the first client that connects, until it leaves.

        Port 0 takes a free one; which one it is is said on standard error.
        """
        asyncio.run(self._serve_one(host, port))

    async def _serve_one(self, host: str, port: int) -> None:
        client: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        client = asyncio.get_running_loop().create_future()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if client.done():
                writer.close()
            else:
                client.set_result((reader, writer))

        listener = await asyncio.start_server(accept, host, port)
        address = listener.sockets[0].getsockname()
        print(f"accelopt: listening on {address[0]}:{address[1]}", file=sys.stderr, flush=True)
        reader, writer = await client
        listener.close()
        self.protocol.set_writer(writer)
        await run_async(
            stop_event=threading.Event(),
            reader=reader,
            protocol=self.protocol,
            logger=logger,
            error_handler=self.report_server_error,
        )

    def on(self, method: str, options: Any = None) -> Callable[[Any], Any]:
        """Decorator that registers a handler."""
        return self.feature(method, options)
