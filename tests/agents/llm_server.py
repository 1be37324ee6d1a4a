"""A real HTTP server that speaks the OpenAI protocol, as a scripted model and with faults.

A *mind* answers a request (``(role, messages, number) -> Answer``); the server turns the answer
into a stream of events, a plain object, or one of the things that go wrong on real endpoints.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, evolve, field, frozen

from tests.agents.landscape import at, point


@frozen
class Answer:
    """What the server sends.

    Attributes:
        text: the reply.
        status, headers, body: an HTTP error instead.
        cut_after: the connection breaks after so many characters.
        finish: ``finish_reason``; None sends none.
        raw: bytes that are sent instead of events.
        pieces: such bytes in several writes, ``gap`` seconds apart.
        content_type: of ``raw`` and ``pieces``.
        breaks: the connection is reset after them.
        wait: seconds before anything is sent.
        endless: the text is repeated without end.
        streams: whether ``stream`` is honoured; else one object is sent.
        usage: whether tokens are counted.
        done: whether ``[DONE]`` is sent.
    """

    text: str = ""
    status: int = 200
    headers: dict[str, str] = field(factory=dict)
    body: dict[str, Any] | None = None
    cut_after: int | None = None
    finish: str | None = "stop"
    raw: bytes | None = None
    pieces: tuple[bytes, ...] = ()
    gap: float = 0.0
    content_type: str = "text/event-stream"
    breaks: bool = False
    wait: float = 0.0
    endless: bool = False
    streams: bool = True
    usage: bool = True
    done: bool = True


Mind = Callable[[str, list[dict[str, str]], int], Answer]
_ROLES = {
    "You plan": "planner",
    "You write": "executor",
    "You repair": "fixer",
    "You distil": "summarizer",
}


@define
class Server:
    """A running server.

    Attributes:
        url: what a user would give as ``--llm-url``.
        requests: bodies of all requests, in the order of their arrival.
        roles: role of each.
        keys: ``Authorization`` headers.
        paths: paths of all requests, with their queries.
        models: what ``GET /v1/models`` lists; None for a server without it.
        prompt_tokens, completion_tokens: what it has counted, faulty replies included.
        most_at_once: requests that were open at the same time.
    """

    mind: Mind
    url: str = ""
    requests: list[dict[str, Any]] = field(factory=list)
    roles: list[str] = field(factory=list)
    keys: list[str] = field(factory=list)
    paths: list[str] = field(factory=list)
    models: list[str] | None = field(factory=lambda: ["m", "other"])
    prompt_tokens: int = 0
    completion_tokens: int = 0
    most_at_once: int = 0
    _open: int = 0
    _lock: threading.Lock = field(factory=threading.Lock)

    def count(self, role: str) -> int:
        return self.roles.count(role)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length", 0))
        request = json.loads(handler.rfile.read(length))
        system = str(request["messages"][0]["content"])
        role = next((r for start, r in _ROLES.items() if system.startswith(start)), "other")
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            self.roles.append(role)
            self.paths.append(handler.path)
            self.keys.append(handler.headers.get("Authorization", ""))
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
        try:
            answer = self.mind(role, request["messages"], number)
            if answer.wait:
                time.sleep(answer.wait)
            self._send(handler, request, answer)
        finally:
            with self._lock:
                self._open -= 1

    def _send(
        self, handler: BaseHTTPRequestHandler, request: dict[str, Any], answer: Answer
    ) -> None:
        if answer.raw is not None or answer.pieces:
            _bytes(handler, answer)
            return
        if answer.status != 200:
            body = answer.body or {"error": {"message": f"status {answer.status}"}}
            _object(handler, answer.status, body, answer.headers)
            return
        prompt = sum(len(m["content"]) for m in request["messages"]) // 4
        usage = {"prompt_tokens": prompt, "completion_tokens": max(1, len(answer.text) // 4)}
        usage["total_tokens"] = sum(usage.values())
        with self._lock:
            self.prompt_tokens += prompt
            self.completion_tokens += usage["completion_tokens"]
        if not request.get("stream") or not answer.streams:
            choice = {"index": 0, "finish_reason": answer.finish}
            choice["message"] = {"role": "assistant", "content": answer.text}
            body = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
            _object(handler, 200, {**body, "choices": [choice], "usage": usage}, {})
            return
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True
        for event in _events(answer, usage if answer.usage else None):
            handler.wfile.write(event)


def _bytes(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
    """Send bytes as they are, and end or break the connection."""
    handler.send_response(answer.status)
    handler.send_header("Content-Type", answer.content_type)
    handler.send_header("Connection", "close")
    for name, value in answer.headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.close_connection = True
    for piece in (answer.raw or b"", *answer.pieces):
        handler.wfile.write(piece)
        handler.wfile.flush()
        time.sleep(answer.gap)
    if answer.breaks:
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _object(
    handler: BaseHTTPRequestHandler, status: int, body: dict[str, Any], headers: dict[str, str]
) -> None:
    data = json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


def _events(answer: Answer, usage: dict[str, int] | None) -> Iterator[bytes]:
    def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
        chunk = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
        return f"data: {json.dumps({**chunk, 'choices': choices, **more})}\n\n".encode()

    sent = 0
    while True:
        for start in range(0, len(answer.text), 97):
            piece = answer.text[start : start + 97]
            if answer.cut_after is not None and sent + len(piece) > answer.cut_after:
                return
            sent += len(piece)
            yield event([{"index": 0, "delta": {"content": piece}, "finish_reason": None}])
        if not answer.endless:
            break
    if answer.finish is not None:
        yield event([{"index": 0, "delta": {}, "finish_reason": answer.finish}])
    if usage is not None:
        yield event([], usage=usage)
    if answer.done:
        yield b"data: [DONE]\n\n"


@contextmanager
def serving(mind: Mind) -> Iterator[Server]:
    """A server on a free port of this machine."""
    server = Server(mind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server.paths.append(self.path)
            if server.models is None or not self.path.partition("?")[0].endswith("/models"):
                _object(self, 404, {"error": {"message": "Not Found"}}, {})
                return
            found = [{"id": name, "object": "model"} for name in server.models]
            _object(self, 200, {"object": "list", "data": found}, {})

        def do_POST(self) -> None:
            try:
                server.answer(self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


# -- a mind for the landscape ---------------------------------------------------------

STEPS = ((1, 0), (0, 1), (2, 0), (-1, 0), (0, -1), (0, 3))
_CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def code_of(messages: list[dict[str, str]]) -> str:
    """The first Python block of a prompt: the kernel."""
    found = _CODE.search(messages[-1]["content"]) or _CODE.search(messages[1]["content"])
    assert found is not None
    return found[1]


def walking(role: str, messages: list[dict[str, str]], number: int) -> Answer:
    """Plans and carries out single steps in the landscape, and chats around the code."""
    prompt = messages[1]["content"]
    if role == "planner":
        tried = prompt.partition("# Already tried")[2]
        left = [s for s in STEPS if f"step {s[0]},{s[1]}" not in tried]
        plans = [{"title": f"step {a},{b}", "rationale": "it is downhill"} for a, b in left]
        return Answer(f"Sure!\n```json\n{json.dumps({'plans': plans})}\n```\nGood luck.")
    if role == "executor":
        a, b = point(code_of(messages))
        da, db = map(int, re.search(r"step (-?\d+),(-?\d+)", prompt).groups())  # type: ignore[union-attr]
        return Answer(f"Here you are:\n\n```python\n{function_at(a + da, b + db)}```\nDone.")
    if role == "fixer":
        a, b = point(_CODE.findall(prompt)[-1])
        return Answer(f"```python\n{function_at(a, b - 1)}```")
    lesson = {"title": "Walk downhill", "strategy": "Steps towards the valley are faster."}
    return Answer(json.dumps({**lesson, "before": "A = a", "after": "A = a + 1"}))


def function_at(a: int, b: int) -> str:
    """The kernel's function alone at a point."""
    text = at(a, b)
    return text[text.index("@nki.jit") :]


def faulty(mind: Mind, faults: dict[int, Answer]) -> Mind:
    """A mind some of whose answers, by the number of the request, go wrong."""

    def answer(role: str, messages: list[dict[str, str]], number: int) -> Answer:
        fault = faults.get(number)
        if fault is None:
            return mind(role, messages, number)
        if fault.text or fault.status != 200 or fault.raw is not None:
            return fault
        said = mind(role, messages, number)
        return evolve(fault, text=said.text)

    return answer
