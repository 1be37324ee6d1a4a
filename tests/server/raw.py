"""A client that knows no LSP library: whatever it is told to send is sent, as it is."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from tests.server.conftest import REAL_SERVER

Message = dict[str, Any]


class Unanswered:
    """What a handler gives whose request gets no answer at all."""


class Refused(Exception):
    """A handler's request is answered with an error."""


class RawClient:
    """One server process and what is said to and by it.

    Attributes:
        handlers: answer the server's requests, by method; others are not found.
        heard: the server's notifications and requests, in their order.
        bare: responses to no request of ours.
        noise: what the server has written to standard error.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.handlers: dict[str, Callable[[Any], Any]] = {}
        self.heard: list[Message] = []
        self.bare: list[Message] = []
        self.noise = b""
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._drain())]

    async def _drain(self) -> None:
        assert self.process.stderr is not None
        while piece := await self.process.stderr.read(65536):
            self.noise += piece

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        while head := await self.process.stdout.readline():
            size = int(head.partition(b":")[2])
            while (await self.process.stdout.readline()).strip():
                pass
            message = json.loads(await self.process.stdout.readexactly(size))
            if "method" in message:
                self.heard.append(message)
                if "id" in message:
                    self._respond(message)
            elif (waiting := self._waiting.pop(str(message.get("id")), None)) is not None:
                waiting.set_result(message)
            else:
                self.bare.append(message)
        for future in self._waiting.values():
            future.set_exception(ConnectionError(f"the server has gone: {self.noise.decode()}"))

    def _respond(self, message: Message) -> None:
        handler = self.handlers.get(message["method"])
        answer: Message = {"id": message["id"]}
        if handler is None:
            answer["error"] = {"code": -32601, "message": "no such method"}
        else:
            try:
                answer["result"] = handler(message.get("params"))
            except Refused as error:
                answer["error"] = {"code": -32803, "message": str(error)}
        if not isinstance(answer.get("result"), Unanswered):
            self.send(answer)

    def send(self, content: Any, **members: Any) -> None:
        """Send one message; ``jsonrpc`` is added to objects."""
        if isinstance(content, dict):
            content = {"jsonrpc": "2.0", **content, **members}
        self.send_bytes(json.dumps(content).encode())

    def send_bytes(self, body: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def notify(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    async def ask(
        self, method: str, params: Any, *, id: int | str | None = None, seconds: float = 60
    ) -> Message:
        """The whole answer to a request."""
        number = next(self._numbers) if id is None else id
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[str(number)] = future
        self.send({"id": number, "method": method, "params": params})
        async with asyncio.timeout(seconds):
            return await future

    async def get(self, method: str, params: Any) -> Any:
        """The result of a request, which must not be an error."""
        answer = await self.ask(method, params)
        assert "error" not in answer, (method, params, answer["error"])
        return answer["result"]

    async def start(self, capabilities: Any = None, **params: Any) -> Any:
        found = await self.get("initialize", {"capabilities": capabilities or {}, **params})
        self.notify("initialized", {})
        return found

    def open(self, uri: str, text: str, *, version: int = 1, language: str = "python") -> None:
        item = {"uri": uri, "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def change(self, uri: str, version: int | None, *changes: Message) -> None:
        document = {"uri": uri, "version": version}
        params = {"textDocument": document, "contentChanges": list(changes)}
        self.notify("textDocument/didChange", params)

    async def message(self, part: str, seconds: float = 60) -> str:
        """Wait for a message to the user that holds a text."""
        async with asyncio.timeout(seconds):
            while True:
                for heard in self.heard:
                    if heard["method"] == "window/showMessage":
                        text: str = heard["params"]["message"]
                        if part in text:
                            return text
                await asyncio.sleep(0.02)

    async def leave(self) -> int:
        """Shut down and exit; gives the exit code."""
        await self.ask("shutdown", None)
        self.send({"method": "exit"})
        return await asyncio.wait_for(self.process.wait(), 30)

    async def end(self) -> None:
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        await self.process.wait()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def raw_client(
    command: tuple[str, ...] = REAL_SERVER,
    *,
    cwd: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[RawClient]:
    """A raw client with a server process of its own."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        limit=1 << 26,
    )
    client = RawClient(process)
    try:
        yield client
    finally:
        await client.end()
