"""A small language client over standard input and output, for benchmarks.

It speaks plain JSON-RPC, so that hardly any of the measured time is its own, and it answers
what a server asks as an editor with every ability would.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

CAPABILITIES: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "textDocument": {
        "synchronization": {"didSave": True},
        "diagnostic": {"relatedInformation": True, "codeDescriptionSupport": True},
        "inlayHint": {"resolveSupport": {"properties": ["tooltip"]}},
        "hover": {"contentFormat": ["markdown"]},
        "completion": {"completionItem": {"resolveSupport": {"properties": ["documentation"]}}},
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}},
            "resolveSupport": {"properties": ["edit"]},
            "dataSupport": True,
        },
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
    },
    "workspace": {
        "applyEdit": True,
        "configuration": True,
        "workspaceEdit": {"documentChanges": True},
        "inlayHint": {"refreshSupport": True},
        "codeLens": {"refreshSupport": True},
        "diagnostics": {"refreshSupport": True},
    },
    "window": {"workDoneProgress": True, "showDocument": {"support": True}},
}


def living(pids: Iterable[int]) -> set[int]:
    """Those of some processes that have not ended, wherever they hang in the tree."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
            if status.rpartition(")")[2].split()[0] not in ("Z", "X"):
                found.add(pid)
    return found


class RequestFailed(RuntimeError):
    """The server answered a request with an error.

    Attributes:
        code: its JSON-RPC code.
    """

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message", ""))
        self.code = error.get("code")


class Client:
    """One session.

    Attributes:
        capabilities: what the server said that it can do.
        events: for each method that the server sent, how often it did.
        messages: texts that the server showed or logged.
        progress: values of ``$/progress`` by token.
        pushed: last published diagnostics by document.
        applies: whether edits of the server are accepted (their text is not kept here).
        answer: chooses among the titles of a question; None dismisses it.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.capabilities: dict[str, Any] = {}
        self.events: defaultdict[str, int] = defaultdict(int)
        self.messages: list[str] = []
        self.progress: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.pushed: dict[str, Any] = {}
        self.answer: Callable[[str, list[str]], str | None] = lambda question, titles: None
        self.applies = True
        self.settings: dict[str, Any] = {}
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._changed = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, command: Sequence[str], **options: Any) -> Client:
        """Start a server; ``options`` go to the process."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 26,
            **options,
        )
        return cls(process)

    async def initialize(
        self, capabilities: dict[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        result: dict[str, Any] = await self.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": None,
                "capabilities": CAPABILITIES if capabilities is None else capabilities,
                "initializationOptions": options or None,
            },
        )
        self.capabilities = result["capabilities"]
        self.notify("initialized", {})
        return result

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def call(self, method: str, params: Any) -> tuple[int, asyncio.Future[Any]]:
        """Send a request; gives its id and the future of its answer."""
        self._number += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = future
        self._send({"id": self._number, "method": method, "params": params})
        return self._number, future

    async def request(self, method: str, params: Any) -> Any:
        """Send a request and wait for its answer.

        Raises:
            RequestFailed: the server refused it.
        """
        return await self.call(method, params)[1]

    def cancel(self, number: int) -> None:
        self.notify("$/cancelRequest", {"id": number})

    async def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Wait until something holds that messages of the server change.

        Raises:
            TimeoutError: it did not within that time.
        """
        async with asyncio.timeout(seconds):
            while not (found := condition()):
                self._changed.clear()
                await self._changed.wait()
        return found

    async def close(self, seconds: float = 30.0) -> int:
        """Shut the server down in good order; gives its exit code."""
        async with asyncio.timeout(seconds):
            await self.request("shutdown", None)
            self.notify("exit", None)
            code = await self.process.wait()
        self._reading.cancel()
        return code

    # -- text documents ---------------------------------------------------------------

    def open(self, uri: str, text: str, version: int = 1) -> None:
        item = {"uri": uri, "languageId": "python", "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def change(self, uri: str, version: int, changes: list[dict[str, Any]]) -> None:
        document = {"uri": uri, "version": version}
        params = {"textDocument": document, "contentChanges": changes}
        self.notify("textDocument/didChange", params)

    # -- messages ---------------------------------------------------------------------

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode()
        with contextlib.suppress(ConnectionError):
            self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                head = await self.process.stdout.readuntil(b"\r\n\r\n")
                size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self._take(json.loads(await self.process.stdout.readexactly(size)))
                self._changed.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionResetError("the server has gone"))
            self._changed.set()

    def _take(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method is None:
            future = self._waiting.pop(message["id"])
            if future.done():
                return
            if "error" in message:
                future.set_exception(RequestFailed(message["error"]))
            else:
                future.set_result(message["result"])
            return
        self.events[method] += 1
        params = message.get("params")
        if "id" in message:
            self._send({"id": message["id"], "result": self._reply(method, params)})
        elif method == "$/progress":
            value = {**params["value"], "at": time.perf_counter()}
            self.progress[str(params["token"])].append(value)
        elif method in ("window/showMessage", "window/logMessage"):
            self.messages.append(params["message"])
        elif method == "textDocument/publishDiagnostics":
            self.pushed[params["uri"]] = params

    def _reply(self, method: str, params: Any) -> Any:
        if method == "workspace/configuration":
            return [self.settings for _ in params["items"]]
        if method == "workspace/applyEdit":
            return {"applied": self.applies}
        if method == "window/showDocument":
            return {"success": True}
        if method == "window/showMessageRequest":
            titles = [action["title"] for action in params.get("actions") or ()]
            chosen = self.answer(params["message"], titles)
            return None if chosen is None else {"title": chosen}
        return None
