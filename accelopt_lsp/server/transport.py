"""How messages come in: over standard input, or from one client on a local TCP port."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from collections.abc import Awaitable
from typing import Any, BinaryIO, Protocol

from lsprotocol import types as lsp
from pygls.io_ import StdinAsyncReader, StdoutWriter
from pygls.protocol import LanguageServerProtocol

logger = logging.getLogger(__name__)
_HEADER = re.compile(rb"([!-9;-~]+):[ \t]*(.*?)[ \t]*\r?\n")
"""A field of RFC 7230, as LSP's base protocol has it; a bare line feed is let pass."""
MAX_MESSAGE_BYTES = 1 << 30
"""More than any editor sends: who announces it does not speak LSP."""
IN_TERMINAL = (
    "accelopt: this is a language server; an editor starts it and talks to it over standard input. "
    "docs/editors.md has settings for editors, accelopt --help the commands for a terminal."
)


class NotLsp(ValueError):
    """What came in is no message of LSP's base protocol."""


class Reader(Protocol):
    """Where bytes come from."""

    def readline(self) -> Awaitable[bytes]: ...

    def readexactly(self, n: int) -> Awaitable[bytes]: ...


async def listen(reader: Reader, protocol: LanguageServerProtocol) -> None:
    """Hand on messages until the client has gone.

    Raises:
        NotLsp: the input does not consist of messages.
    """
    while (size := await _size_of_next(reader)) is not None:
        try:
            body = await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        if len(body) < size:
            return
        try:
            data = json.loads(body)
        except (ValueError, RecursionError) as error:
            _refuse(protocol, lsp.ErrorCodes.ParseError, f"not JSON: {error}")
            continue
        if not _is_message(data):
            number = data.get("id") if isinstance(data, dict) else None
            _refuse(protocol, lsp.ErrorCodes.InvalidRequest, "not a JSON-RPC message", number)
            continue
        try:
            protocol.handle_message(protocol.structure_message(data))
        except Exception:
            logger.exception("a message could not be handled")


def _refuse(
    protocol: LanguageServerProtocol, code: lsp.ErrorCodes, why: str, number: object = None
) -> None:
    """Answer something that is no request, with a null id if it has none that can be one."""
    known = number if isinstance(number, int | str) else None
    error = {"code": code.value, "message": why}
    protocol._send_data({"jsonrpc": "2.0", "id": known, "error": error})


def _is_message(data: Any) -> bool:
    """Whether it has the form of a request, a notification or a response."""
    if not isinstance(data, dict) or data.get("jsonrpc") != "2.0":
        return False
    if "method" not in data:
        known = isinstance(data.get("id", ()), int | str | None)
        return known and ("result" in data or "error" in data)
    return isinstance(data["method"], str) and isinstance(data.get("id", 0), int | str)


async def _size_of_next(reader: Reader) -> int | None:
    """Length of the next message's body; None at the end of the input."""
    size: int | None = None
    while True:
        try:
            line = await reader.readline()
        except ConnectionError:
            return None
        except ValueError:
            raise NotLsp("a line without an end") from None
        if not line:
            return None
        if size is not None and not line.strip():
            return size
        field = _HEADER.fullmatch(line)
        if field is None:
            shown = line[:40].decode("utf-8", "replace").strip()
            raise NotLsp(f"expected a header of LSP (Content-Length: N), got {shown!r}")
        if field[1].lower() == b"content-length":
            if not field[2].isdigit():
                raise NotLsp(f"no length: {field[2].decode('utf-8', 'replace')!r}")
            if len(field[2]) > 12 or int(field[2]) > MAX_MESSAGE_BYTES:
                raise NotLsp(f"no length of a message: {field[2][:40].decode()}")
            size = int(field[2])


async def serve_stdio(
    protocol: LanguageServerProtocol, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None
) -> None:
    """Serve the client on standard input and output."""
    protocol.set_writer(StdoutWriter(stdout or sys.stdout.buffer))
    await listen(StdinAsyncReader(stdin or sys.stdin.buffer), protocol)


async def serve_tcp(protocol: LanguageServerProtocol, port: int) -> None:
    """Serve the first client that connects, until it leaves; others are turned away.

    Only this machine can connect.
    Port 0 takes a free one; which one it is is said on standard error.

    Raises:
        OSError: the port cannot be used.
    """
    client: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    client = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if client.done():
            writer.close()
        else:
            client.set_result((reader, writer))

    listener = await asyncio.start_server(accept, "127.0.0.1", port)
    address = listener.sockets[0].getsockname()
    print(f"accelopt: listening on {address[0]}:{address[1]}", file=sys.stderr, flush=True)
    reader, writer = await client
    listener.close()
    protocol.set_writer(writer)
    await listen(reader, protocol)
