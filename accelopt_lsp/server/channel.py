"""Frames between the server and its children: a length, then a pickled tuple.

Both ends are this package, on this machine, over a private pipe. A child keeps its standard
output for frames and sends whatever a library prints to standard error instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import struct
import sys
from collections.abc import Sequence
from typing import Any

from accelopt_lsp.server.processes import descendants, kill_survivors, kill_tree

Message = tuple[Any, ...]
_LENGTH = struct.Struct(">I")
MAX_FRAME_BYTES = 1 << 29


class ChildDied(RuntimeError):
    """The child ended without an answer."""


def encode(message: Message) -> bytes:
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


def child_command(module: str) -> tuple[str, ...]:
    """How to start one of this package's modules as a child.

    ``-P`` keeps the working folder, which is the user's project, off the import path: a file
    of theirs that happens to be called like a package of ours must not run here.
    """
    return (sys.executable, "-P", "-m", module)


class Pipe:
    """The child's end, blocking. One thread may read while another one writes."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink

    @classmethod
    def of_this_process(cls) -> Pipe:
        """Take over standard input and output; prints go to standard error from here on."""
        source, sink = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        return cls(source, sink)

    def read(self) -> Message | None:
        """The next message; None when the server has gone."""
        head = self._read(_LENGTH.size)
        if head is None:
            return None
        body = self._read(_LENGTH.unpack(head)[0])
        if body is None:
            return None
        message: Message = pickle.loads(body)
        return message

    def _read(self, size: int) -> bytes | None:
        # Unbuffered: a thread that still waits here must hold no lock when Python ends.
        data = bytearray()
        while len(data) < size:
            piece = os.read(self._source, min(size - len(data), 1 << 20))
            if not piece:
                return None
            data += piece
        return bytes(data)

    def write(self, *message: Any) -> None:
        """Send one message.

        Raises:
            BrokenPipeError: the server has gone.
        """
        data = memoryview(encode(message))
        while data:
            data = data[os.write(self._sink, data) :]


class Child:
    """The server's end: one child process and its frames."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, command: Sequence[str]) -> Child:
        """Start a child in a session of its own, so that a terminal's Ctrl-C stays here."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        child = cls(process)
        _living.add(process.pid)
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def send(self, *message: Any) -> None:
        """Send one message.

        Raises:
            ChildDied: nobody reads any more.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode(message))
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChildDied(str(error)) from None

    async def receive(self) -> Message:
        """The child's next message.

        Raises:
            ChildDied: it ended, or sent something that is no frame.
        """
        assert self._process.stdout is not None
        try:
            (size,) = _LENGTH.unpack(await self._process.stdout.readexactly(_LENGTH.size))
            if size > MAX_FRAME_BYTES:
                raise ChildDied(f"frame of {size} bytes")
            body = await self._process.stdout.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            raise ChildDied(f"process {self.pid} ended") from None
        message: Message = pickle.loads(body)
        return message

    async def stop(self, grace: float = 0.0) -> None:
        """End the child and everything below it.

        With ``grace`` seconds it is first asked to end by itself; whoever is then left, be it
        the child or one of its descendants, is killed.
        """
        family = descendants(self.pid)
        try:
            if self.alive and grace > 0:
                with contextlib.suppress(ChildDied, TimeoutError):
                    async with asyncio.timeout(grace):
                        await self._ask_to_end()
        finally:
            if self.alive:
                kill_tree(self.pid)
            kill_survivors(family)
            _living.discard(self.pid)
            self._close_input()
        await self._process.wait()

    async def _ask_to_end(self) -> None:
        await self.send("cancel")
        self._close_input()
        await self._process.wait()

    def _close_input(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(Exception):
                self._process.stdin.close()


_living: set[int] = set()
"""Children that have not been stopped; the last resort of a server that is told to go."""


def kill_all_children() -> None:
    """End every child of this server at once, without waiting."""
    while _living:
        kill_tree(_living.pop())
