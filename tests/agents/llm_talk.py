"""What tests ask models with: a client at a test server, one question, and streams as answers."""

from __future__ import annotations

import json
from typing import Any

from accelopt_lsp.agents.llm.client import ChatModels
from accelopt_lsp.agents.llm.settings import llm_settings
from tests.agents.llm_server import Answer, Server

SECRET = "sk-very-secret"
ASKED = ({"role": "system", "content": "You write"}, {"role": "user", "content": "hello"})
FINE = Answer("fine")


def chat_at(server: Server, notes: list[str] | None = None, **given: Any) -> ChatModels:
    settings = llm_settings(None, {"base_url": server.url, "model": "m", **given}, {})
    return ChatModels(
        settings,
        environment={"ACCELOPT_LLM_API_KEY": SECRET},
        first_wait=0.001,
        note=(notes if notes is not None else []).append,
    )


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One event of a stream."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    chunk = {"id": "x", "object": "chat.completion.chunk", "choices": choices, **more}
    return f"data: {json.dumps(chunk)}\n\n".encode()


def stream(*deltas: dict[str, Any], finish: str | None = "stop", **usage: Any) -> Answer:
    """A stream of such events, in order."""
    data = b"".join(event(delta) for delta in deltas) + event({}, finish)
    if usage:
        data += event(usage=usage)
    return Answer(raw=data + b"data: [DONE]\n\n")


def error(status: int, message: str, **more: Any) -> Answer:
    return Answer(status=status, body={"error": {"message": message, **more}})
