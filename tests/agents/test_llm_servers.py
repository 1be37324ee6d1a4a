"""Three servers that people run, each as it words its streams, lists and errors; and `doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from accelopt_lsp.agents.llm.faults import TooLong
from accelopt_lsp.workbench.endpoints import examine_endpoints
from tests.agents.llm_server import Answer, serving
from tests.agents.llm_talk import ASKED, chat_at

COUNTS = {"prompt_tokens": 30, "completion_tokens": 2, "total_tokens": 32}


def chunk(choices: list[dict[str, Any]], **more: Any) -> bytes:
    head = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return f"data: {json.dumps({**head, **more, 'choices': choices})}\n\n".encode()


def piece(delta: dict[str, Any], finish: str | None = None, **more: Any) -> list[dict[str, Any]]:
    return [{"index": 0, "delta": delta, "finish_reason": finish, **more}]


DONE = b"data: [DONE]\n\n"
OLLAMA = {"system_fingerprint": "fp_ollama"}
TIMINGS = {"timings": {"prompt_n": 30, "prompt_ms": 9.5, "predicted_n": 2}}
STREAMS = {
    "Ollama": chunk(piece({"role": "assistant", "content": "fi"}), **OLLAMA)
    + chunk(piece({"role": "assistant", "content": "ne"}), **OLLAMA)
    + chunk(piece({"role": "assistant", "content": ""}, "stop"), **OLLAMA)
    + chunk([], usage=COUNTS, **OLLAMA)
    + DONE,
    "vLLM": chunk(piece({"role": "assistant", "content": ""}, logprobs=None))
    + chunk(piece({"content": "fi"}, logprobs=None, token_ids=None))
    + chunk(piece({"content": "ne"}, "stop", logprobs=None, stop_reason=None))
    + chunk([], usage=COUNTS)
    + DONE,
    "llama.cpp": chunk(piece({"role": "assistant", "content": None}))
    + chunk(piece({"content": "fi"}))
    + chunk(piece({"content": "ne"}))
    + chunk(piece({}, "stop"))
    + chunk([], usage=COUNTS, **TIMINGS)
    + DONE,
}
TOO_LONG = {
    "vLLM": (
        "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens "
        "in the messages, Please reduce the length of the messages."
    ),
    "llama.cpp": "request (9000 tokens) exceeds the available context size (4096 tokens)",
}


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_as_it_is_sent(name: str) -> None:
    with serving(lambda *_: Answer(raw=STREAMS[name])) as server:
        chat = chat_at(server)
        reply = await chat.ask("executor", ASKED)
        await chat.close()
    assert (reply.text, reply.cut) == ("fine", False)
    assert chat.ledger.of("executor").tokens == 32


@pytest.mark.parametrize("name", TOO_LONG)
async def test_a_context_that_is_too_short_is_named(name: str) -> None:
    body = {"error": {"message": TOO_LONG[name], "code": 400}}
    with serving(lambda *_: Answer(status=400, body=body)) as server:
        chat = chat_at(server)
        with pytest.raises(TooLong) as caught:
            await chat.ask("executor", ASKED)
        await chat.close()
    assert caught.value.limit == 4096


# -- accelopt doctor --------------------------------------------------------------------


async def looked(tmp_path: Path, url: str, model: str | None = None, ask: bool = False) -> Any:
    return await examine_endpoints(tmp_path, {"base_url": url, "model": model}, ask=ask)


async def test_doctor_looks_at_nothing_that_is_not_configured(tmp_path: Path) -> None:
    (found,) = await examine_endpoints(tmp_path, {"base_url": None, "model": None})
    assert found.ok is None
    assert "none configured" in found.detail


async def test_doctor_says_whether_the_model_is_there(tmp_path: Path) -> None:
    with serving(lambda *_: Answer("yes")) as server:
        (found,) = await looked(tmp_path, server.url)
        assert found.ok is True
        assert "models: m, other" in found.detail
        (found,) = await looked(tmp_path, server.url, "m")
        assert found.ok is True
        (found,) = await looked(tmp_path, server.url, "othre")
        assert found.ok is False
        assert "it has: other" in found.detail
        server.models = ["qwen3-coder:latest"]
        (found,) = await looked(tmp_path, server.url, "qwen3-coder")
        assert found.ok is True
        assert server.requests == []
        _, answer = await looked(tmp_path, server.url, "qwen3-coder", ask=True)
        assert answer.ok is True
        assert "counts tokens" in answer.detail
        assert server.requests[0]["max_tokens"] == 16
        server.models = None
        (found,) = await looked(tmp_path, server.url, "m")
        assert found.ok is None
    (found,) = await looked(tmp_path, server.url, "m")
    assert found.ok is False
    assert "is the server running" in found.detail


async def test_doctor_reads_the_project(tmp_path: Path) -> None:
    with serving(lambda *_: Answer("yes")) as server:
        (tmp_path / "pyproject.toml").write_text(
            f'[tool.accelopt.llm]\nbase-url = "{server.url}"\nmodel = "m"\nfixer = "none"\n'
        )
        here, missing = await examine_endpoints(tmp_path, {})
        assert (here.ok, missing.ok) == (True, False)
        (tmp_path / "pyproject.toml").write_text('[tool.accelopt.llm]\nmodle = "m"\n')
        (found,) = await examine_endpoints(tmp_path, {})
        assert "unknown setting 'modle'" in found.detail


async def test_a_model_that_only_thinks_answers(tmp_path: Path) -> None:
    thinks = chunk(piece({"reasoning_content": "hm"})) + chunk(piece({}, "length")) + DONE
    with serving(lambda *_: Answer(raw=thinks)) as server:
        _, answer = await looked(tmp_path, server.url, "m", ask=True)
    assert answer.ok is True
    assert "counts no tokens" in answer.detail
