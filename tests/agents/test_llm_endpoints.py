"""How real endpoints misbehave, one case each, and what becomes of the request.

A case is a list of answers, of which the last repeats, and what must come of it: the reply's
text, or an error with certain words. The client is the official one, the server a real one.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from email.utils import formatdate
from typing import Any

import pytest
from attrs import field, frozen

from accelopt_lsp.agents.llm.faults import LlmError, TooLong
from accelopt_lsp.agents.llm.wire import MAX_REPLY_CHARS
from accelopt_lsp.agents.roles import RoleFailure, Usage
from tests.agents.llm_server import Answer, serving
from tests.agents.llm_talk import ASKED, FINE, SECRET, chat_at, error, event, stream


def whole(message: dict[str, Any], finish: str = "stop", **more: Any) -> Answer:
    """One object, whatever was asked for."""
    body = {"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}
    return Answer(raw=json.dumps(body).encode(), content_type="application/json")


def json_body(body: object, status: int = 200) -> Answer:
    return Answer(raw=json.dumps(body).encode(), status=status, content_type="application/json")


@frozen
class Case:
    """Answers in order, the last one for all that follow, and what comes of them.

    Attributes:
        text: the reply; None if there is none.
        fails: class and words of the error.
        requests: how many are sent.
        counted: prompt, completion and cached tokens of the usage, where it is looked at.
        notes: words that the user is told.
        given: settings.
    """

    answers: tuple[Answer, ...]
    text: str | None = "fine"
    fails: tuple[type[Exception], str] | None = None
    requests: int = 1
    counted: tuple[int, int, int] | None = None
    notes: str | None = None
    given: dict[str, Any] = field(factory=dict)


def no(kind: type[Exception], words: str, *answers: Answer, requests: int = 1, **more: Any) -> Case:
    return Case(answers, None, (kind, words), requests, **more)


USAGE = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}
HARMONY = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>fine"
IN_TWO = "fïne 🙂".encode()
LATER = formatdate(time.time() + 86_400, usegmt=True)
SOON = formatdate(time.time() - 5, usegmt=True)

CASES: dict[str, Case] = {
    # -- shapes of replies
    "reasoning_content beside the answer": Case(
        (stream({"reasoning_content": "let me think"}, {"content": "fine"}),)
    ),
    "reasoning beside the answer": Case((stream({"reasoning": "hm"}, {"content": "fine"}),)),
    "the answer in reasoning_content alone": Case((stream({"reasoning_content": "fine"}),)),
    "thoughts use up the reply": no(
        LlmError, "max-output-tokens", stream({"reasoning_content": "hm " * 99}, finish="length")
    ),
    "content in parts": Case(
        (whole({"content": [{"type": "text", "text": "fi"}, {"type": "text", "text": "ne"}]}),)
    ),
    "content null in the first piece": Case(
        (stream({"role": "assistant", "content": None}, {"content": "fine"}),)
    ),
    "a tool is called": Case(
        (
            stream(
                {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "fi"}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": "ne"}}]},
                finish="tool_calls",
            ),
        )
    ),
    "refusal": no(LlmError, "the model refused: I will", stream({"refusal": "I will not."})),
    "content filter": no(LlmError, "content filter", stream({}, finish="content_filter")),
    "empty choices": no(LlmError, "the reply is empty", json_body({"choices": []}), requests=3),
    "choices null": no(LlmError, "the reply is empty", json_body({"choices": None}), requests=3),
    "a list instead of an object": no(LlmError, "no object", json_body([1, 2]), requests=3),
    "half a surrogate pair in each piece": Case(
        (
            Answer(
                raw=b'data: {"choices":[{"delta":{"content":"fine \\ud83d"}}]}\n\n'
                b'data: {"choices":[{"delta":{"content":"\\ude42"},"finish_reason":"stop"}]}'
                b"\n\ndata: [DONE]\n\n"
            ),
        ),
        "fine 🙂",
    ),
    "half a surrogate pair alone": Case(
        (
            Answer(
                raw=b'data: {"choices":[{"delta":{"content":"fine\\ud83d"},'
                b'"finish_reason":"stop"}]}\n\n'
            ),
        ),
        "fine\N{REPLACEMENT CHARACTER}",
    ),
    "null bytes": Case((stream({"content": "fi\x00ne"}),), "fi\x00ne"),
    "an old completion": Case(
        (json_body({"choices": [{"text": "fine", "finish_reason": "stop"}]}),)
    ),
    # -- the stream
    "comments and keep-alives": Case(
        (
            Answer(
                raw=b": OPENROUTER PROCESSING\n\n: ping\n\ndata: \n\n"
                + stream({"content": "fine"}).raw
            ),
        )  # type: ignore[operator]
    ),
    "windows line ends": Case(
        (Answer(raw=stream({"content": "fine"}).raw.replace(b"\n", b"\r\n")),)  # type: ignore[union-attr]
    ),
    "no blank after data:": Case(
        (Answer(raw=stream({"content": "fine"}).raw.replace(b"data: ", b"data:")),)  # type: ignore[union-attr]
    ),
    "split inside a character": Case(
        (
            Answer(
                pieces=(
                    b'data: {"choices":[{"delta":{"content":"' + IN_TWO[:3],
                    IN_TWO[3:-2],
                    IN_TWO[-2:] + b'"},"finish_reason":"stop"}]}\n\n',
                ),
                gap=0.01,
            ),
        ),
        "fïne 🙂",
    ),
    "one byte at a time": Case(
        (Answer(pieces=tuple(bytes([b]) for b in stream({"content": "fine"}).raw or b"")),)
    ),
    "event names": Case(
        (Answer(raw=b"event: message\nid: 1\nretry: 5\n" + event({"content": "fine"}, "stop")),)
    ),
    "no [DONE]": Case((Answer("fine", done=False),)),
    "neither [DONE] nor finish_reason, every time": Case(
        (Answer("fine", done=False, finish=None),), requests=3
    ),
    "one object though a stream was asked for": Case((whole({"content": "fine"}),)),
    "one object, printed over many lines": Case(
        (
            Answer(
                raw=json.dumps(
                    {"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]},
                    indent=2,
                ).encode(),
                content_type="application/json",
            ),
        )
    ),
    "events that call themselves json": Case(
        (Answer(raw=stream({"content": "fine"}).raw, content_type="application/json"),)
    ),
    "events that call themselves text": Case(
        (Answer(raw=stream({"content": "fine"}).raw, content_type="text/plain"),)
    ),
    "gzip": Case(
        (
            Answer(
                raw=gzip.compress(stream({"content": "fine"}).raw or b""),
                headers={"Content-Encoding": "gzip"},
            ),
        )
    ),
    "reset midway": Case((Answer(raw=event({"content": "fi"}), breaks=True), FINE), requests=2),
    "reset at once": Case((Answer(raw=b"", breaks=True), FINE), requests=2),
    "finish_reason error": Case((stream({"content": "fi"}, finish="error"), FINE), requests=2),
    "a huge reply": Case(
        (Answer(raw=event({"content": "x" * 3_000_000}, "stop")),), "x" * 3_000_000
    ),
    # -- counts
    "usage in the last piece": Case((stream({"content": "fine"}, **USAGE),), counted=(30, 5, 0)),
    "usage with cached tokens": Case(
        (stream({"content": "fine"}, **USAGE, prompt_tokens_details={"cached_tokens": 20}),),
        counted=(30, 5, 20),
    ),
    "usage with a cache as DeepSeek has it": Case(
        (stream({"content": "fine"}, **USAGE, prompt_cache_hit_tokens=10),), counted=(30, 5, 10)
    ),
    "thoughts in the total only": Case(
        (stream({"content": "fine"}, **{**USAGE, "total_tokens": 135}),), counted=(30, 105, 0)
    ),
    "counts as Anthropic names them": Case(
        (whole({"content": "fine"}, usage={"input_tokens": 30, "output_tokens": 5}),),
        counted=(30, 5, 0),
    ),
    # -- parameters
    "no system role": Case((error(400, "System role not supported"), FINE), requests=2),
    "no system role, said by a template": Case(
        (error(500, "Conversation roles must alternate user/assistant/user/assistant/..."), FINE),
        requests=2,
    ),
    "developer instruction": Case(
        (error(400, "Developer instruction is not enabled for models/gemma"), FINE), requests=2
    ),
    "extra inputs": Case(
        (
            json_body(
                {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs"}]}, 422
            ),
            json_body({"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs"}]}, 422),
            FINE,
        ),
        requests=3,
    ),
    "no stream": Case(
        (error(400, "Streaming is not supported for this model"), whole({"content": "fine"})),
        requests=2,
    ),
    "temperature": Case(
        (
            error(400, "Unsupported value: 'temperature' does not support 0.3 with this model."),
            FINE,
        ),
        requests=2,
        notes="does not take temperature",
        given={"temperature": 0.3},
    ),
    "reasoning effort": Case(
        (error(400, "Unrecognized request argument supplied: reasoning_effort"), FINE),
        requests=2,
        notes="does not take reasoning-effort",
        given={"reasoning_effort": "high"},
    ),
    # -- too long
    "context, OpenAI": no(
        TooLong,
        "8192",
        error(
            400,
            "This model's maximum context length is 8192 tokens. However, your messages "
            "resulted in 9000 tokens.",
            code="context_length_exceeded",
        ),
    ),
    "context, vLLM": no(
        TooLong,
        "4096",
        json_body(
            {
                "object": "error",
                "message": "The decoder prompt (length 9000) is longer than "
                "the maximum model length of 4096. Make sure that max_model_len is no smaller",
                "type": "BadRequestError",
                "code": 400,
            },
            400,
        ),
    ),
    "context, llama.cpp": no(
        TooLong,
        "exceeds the available context",
        error(
            400,
            "the request exceeds the available context size, try increasing it",
            type="exceed_context_size_error",
            n_ctx=4096,
        ),
    ),
    "context, Bedrock": no(TooLong, "too long", error(400, "Input is too long for this model.")),
    "payload too large": no(TooLong, "413", error(413, "Request Entity Too Large")),
    "no room for the reply": Case(
        (
            error(
                400,
                "max_tokens is too large: 9999. This model's maximum context length is 8192 tokens",
            ),
            FINE,
        ),
        requests=2,
        given={"max_output_tokens": 9999},
    ),
    # -- errors inside an answer of status 200
    "error in a stream": Case(
        (Answer(raw=b'data: {"error": {"message": "overloaded", "code": 503}}\n\n'), FINE),
        requests=2,
    ),
    "error as the only object": Case(
        (json_body({"error": {"message": "upstream timed out"}}), FINE), requests=2
    ),
    "no such model, said with status 200": no(
        RoleFailure, "model 'm' not found", json_body({"error": "model 'm' not found, pull it"})
    ),
    "wrong key, said with status 200": no(
        RoleFailure, "Invalid API key", json_body({"error": {"message": "Invalid API key"}})
    ),
    "a web page": no(
        RoleFailure,
        "a web page",
        Answer(raw=b"<!DOCTYPE html><html><body>Log in</body></html>", content_type="text/html"),
        requests=3,
        given={"retries": 2},
    ),
    # -- hopeless
    "401": no(RoleFailure, "the API key was refused", error(401, f"bad key {SECRET}")),
    "403": no(RoleFailure, "the API key was refused", error(403, "no access")),
    "404": no(RoleFailure, "a model of this endpoint", error(404, "The model `m` does not exist")),
    "404 as a page": no(
        RoleFailure,
        "is the URL right",
        Answer(raw=b"<html>Not Found</html>", status=404, content_type="text/html"),
    ),
    "405": no(RoleFailure, "405", error(405, "Method Not Allowed")),
    "no credit": no(
        RoleFailure,
        "no credit",
        error(429, "You exceeded your current quota", code="insufficient_quota"),
    ),
    "402": no(RoleFailure, "402", error(402, "Payment required")),
    "a redirect elsewhere": no(
        RoleFailure,
        "redirects to https://elsewhere.example/v1",
        Answer(raw=b"", status=307, headers={"Location": "https://elsewhere.example/v1"}),
    ),
    "a bad request, first of all": no(RoleFailure, "400", error(400, "no")),
    "a huge error": no(
        RoleFailure, "400", Answer(raw=b"x" * 9_000_000, status=400, content_type="text/plain")
    ),
    # -- passing
    "429 once": Case((error(429, "slow down"), FINE), requests=2),
    "429 for ever": no(
        RoleFailure, "gave no reply in 3 tries", error(429, "no"), requests=3, given={"retries": 2}
    ),
    "retry at a date": Case((Answer(status=429, headers={"Retry-After": SOON}), FINE), requests=2),
    "retry tomorrow": no(
        RoleFailure, "asks to wait", Answer(status=429, headers={"Retry-After": LATER})
    ),
    "retry after a day": no(
        RoleFailure,
        "86400 s: go on later with --resume",
        Answer(status=429, headers={"Retry-After": "86400"}),
    ),
    "retry after nonsense": Case(
        (Answer(status=503, headers={"Retry-After": "soon"}), FINE), requests=2
    ),
    "loading": Case(
        (error(503, "Loading model", type="unavailable_error", code=503), FINE), requests=2
    ),
    "529": Case((error(529, "overloaded"), FINE), requests=2),
}


def mind_of(case: Case) -> Any:
    def mind(role: str, messages: list[dict[str, str]], number: int) -> Answer:
        return case.answers[min(number, len(case.answers) - 1)]

    return mind


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_what_endpoints_do(case: Case) -> None:
    notes: list[str] = []
    with serving(mind_of(case)) as server:
        chat = chat_at(server, notes, **case.given)
        try:
            if case.fails is None:
                reply = await chat.ask("executor", ASKED)
                assert reply.text == case.text
            else:
                with pytest.raises(case.fails[0], match=case.fails[1]) as caught:
                    await chat.ask("executor", ASKED)
                assert type(caught.value) is case.fails[0]
                assert SECRET not in str(caught.value)
        finally:
            await chat.close()
        assert len(server.requests) == case.requests
    if case.counted is not None:
        usage = chat.ledger.of("executor")
        found = usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens
        assert found == case.counted
        assert usage.tokens == sum(case.counted[:2])
    assert case.notes is None or case.notes in " ".join(notes)


# -- counts that are not there ------------------------------------------------------------

UNCOUNTED = {
    "no usage": stream({"content": "fine"}),
    "usage null": Answer(raw=event({"content": "fine"}, "stop", usage=None) + b"data: [DONE]\n\n"),
    "usage empty": stream({"content": "fine"}, prompt_tokens=None),
    "negative": stream({"content": "fine"}, prompt_tokens=-1, completion_tokens=3),
    "words": stream({"content": "fine"}, prompt_tokens="many", completion_tokens=3),
}


@pytest.mark.parametrize("answer", UNCOUNTED.values(), ids=UNCOUNTED)
async def test_an_unknown_count_is_unknown_and_counts_towards_the_limit(answer: Answer) -> None:
    with serving(lambda *_: answer) as server:
        chat = chat_at(server, price_input=1.0, price_output=1.0, budget_tokens=10_000)
        await chat.ask("executor", ASKED)
        await chat.close()
    usage = chat.ledger.of("executor")
    assert usage == Usage(calls=1, tokens=None, cost_usd=None, uncounted=1)
    assert "uncounted" in usage.words()
    assert "cost unknown" in usage.words()
    assert chat.ledger.total.charged_tokens > 0
    assert chat.ledger.total.charged_usd > 0


async def test_a_prompt_that_the_endpoint_cuts_is_told() -> None:
    """Ollama reads no more of a prompt than its context holds, and says so in its count only."""
    notes: list[str] = []
    answer = stream({"content": "fine"}, prompt_tokens=4096, completion_tokens=3)
    long = (*ASKED, {"role": "user", "content": "x" * 50_000})
    with serving(lambda *_: answer) as server:
        chat = chat_at(server, notes)
        await chat.ask("executor", ASKED)
        assert notes == []
        await chat.ask("executor", long)
        await chat.close()
    assert "seems to cut prompts" in notes[0]


# -- time ---------------------------------------------------------------------------------


def endless(piece: bytes) -> Answer:
    return Answer(pieces=(piece,) * 100_000)


ENDLESS = {
    "content": event({"content": "word " * 500}),
    "reasoning": event({"reasoning_content": "word " * 5_000}),
    "comments": b": " + b"x" * 100_000 + b"\n",
    "one line": b"x" * 100_000,
}


@pytest.mark.parametrize("name", ENDLESS)
async def test_a_reply_without_end_is_cut_off(name: str) -> None:
    with serving(lambda *_: endless(ENDLESS[name])) as server:
        chat = chat_at(server, retries=0)
        try:
            reply = await chat.ask("executor", ASKED)
            assert name == "content"
            assert reply.cut
            assert len(reply.text) < MAX_REPLY_CHARS + 5_000
        except LlmError as reason:
            assert name != "content"
            assert "length limit" in str(reason) or "empty" in str(reason)
        await chat.close()
    assert len(server.requests) == 1


async def test_a_reply_that_drips_has_a_limit() -> None:
    drip = Answer(pieces=(b":\n",) * 200, gap=0.02)
    with serving(lambda *_: drip) as server:
        chat = chat_at(server, timeout_seconds=5.0, reply_seconds=0.4, retries=1)
        with pytest.raises(LlmError, match=r"no whole reply within 0.4 s \(reply-seconds\)"):
            await chat.ask("executor", ASKED)
        await chat.close()
    assert chat.ledger.total.uncounted == 2


async def test_cancelling_ends_a_request_at_once_and_books_it() -> None:
    with serving(lambda *_: Answer("late", wait=2.0)) as server:
        chat = chat_at(server)
        task = asyncio.create_task(chat.ask("executor", ASKED))
        while not server.requests:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 1.0)
        await chat.close()
    assert chat.ledger.total.uncounted == 1


async def test_cancelling_ends_a_pause_at_once() -> None:
    with serving(lambda *_: Answer(status=429, headers={"Retry-After": "200"})) as server:
        chat = chat_at(server)
        task = asyncio.create_task(chat.ask("executor", ASKED))
        while not server.requests:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 1.0)
        await chat.close()
