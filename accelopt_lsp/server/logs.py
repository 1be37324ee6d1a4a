"""What this package logs, in the client's log and, if it asks for that, in its trace."""

from __future__ import annotations

import logging
from collections.abc import Callable

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

PACKAGE = "accelopt_lsp"


class ClientLog(logging.Handler):
    """Sends records to the client, at the level that the user chose.

    The trace that a client asks for with ``$/setTrace`` brings everything as ``$/logTrace``.

    Args:
        server: sends the messages.
        running: whether the client is there and has been answered.
    """

    def __init__(self, server: LanguageServer, running: Callable[[], bool]) -> None:
        super().__init__(logging.DEBUG)
        self._server = server
        self._running = running
        self._least = logging.WARNING
        self._sending = False

    def install(self) -> None:
        """Hear everything that the package logs; :meth:`choose` decides what is sent."""
        logging.getLogger(PACKAGE).addHandler(self)

    def choose(self, level: str) -> None:
        """Send messages from a level on: ``error``, ``warning``, ``info`` or ``debug``."""
        self._least = getattr(logging, level.upper())
        self.adjust()

    def adjust(self) -> None:
        """Have the package log what somebody will see; called when the trace changes."""
        wanted = logging.DEBUG if self._traced else self._least
        elsewhere = logging.getLogger().getEffectiveLevel()
        logging.getLogger(PACKAGE).setLevel(min(wanted, elsewhere))

    @property
    def _traced(self) -> bool:
        trace: lsp.TraceValue = self._server.protocol.trace
        return trace != lsp.TraceValue.Off

    def emit(self, record: logging.LogRecord) -> None:
        if self._sending or not self._running():
            return
        self._sending = True
        try:
            self._send(record)
        except Exception:  # noqa: BLE001 - a client that has gone must not break what logs
            self.handleError(record)
        finally:
            self._sending = False

    def _send(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= self._least:
            self._server.window_log_message(lsp.LogMessageParams(_kind(record.levelno), text))
        if self._traced:
            verbose = self._server.protocol.trace == lsp.TraceValue.Verbose
            detail = f"{record.name}, {record.levelname.lower()}" if verbose else None
            self._server.log_trace(lsp.LogTraceParams(text, detail))


def _kind(level: int) -> lsp.MessageType:
    if level >= logging.ERROR:
        return lsp.MessageType.Error
    if level >= logging.WARNING:
        return lsp.MessageType.Warning
    return lsp.MessageType.Info if level >= logging.INFO else lsp.MessageType.Log
