"""The loop with language models, against a real server of the OpenAI protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import evolve

from accelopt_lsp.agents.llm.client import ChatModels
from accelopt_lsp.agents.llm.faults import LlmError
from accelopt_lsp.agents.llm.settings import llm_settings
from accelopt_lsp.agents.llm.wire import MAX_REPLY_CHARS
from accelopt_lsp.agents.memory import OptimizationMemory
from accelopt_lsp.agents.roles import OutOfBudget, RoleFailure
from accelopt_lsp.agents.store import RunStore
from accelopt_lsp.nki.arguments import parse_spec
from accelopt_lsp.workbench.memory import run_spending
from accelopt_lsp.workbench.optimize import OptimizeReport, OptimizeRequest, optimize_kernel
from accelopt_lsp.workbench.requests import KernelRequest, RequestError
from tests.agents.landscape import TEXT, FakeProfiler, at, latency, point, quick
from tests.agents.llm_server import Answer, Mind, Server, faulty, serving, walking

pytestmark = pytest.mark.usefixtures("data_dir")
SECRET = "sk-very-secret"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.py"
    path.write_text(TEXT)
    return path


@pytest.fixture
def serve() -> Iterator[Callable[[Mind], Server]]:
    """Starts servers and stops them after the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCELOPT_LLM_API_KEY", SECRET)
        open_ = []

        def start(mind: Mind) -> Server:
            context = serving(mind)
            open_.append(context)
            return context.__enter__()

        yield start
        for context in open_:
            context.__exit__(None, None, None)


def models(server: Server, **given: object) -> ChatModels:
    """Models at a server, that wait for milliseconds instead of seconds."""
    settings = llm_settings(None, {"base_url": server.url, "model": "m", **given})
    return ChatModels(settings, first_wait=0.001)


ASKED = ({"role": "system", "content": "You write"}, {"role": "user", "content": "hello"})


async def ask(server: Server, **given: object) -> str:
    chat = models(server, **given)
    try:
        return (await chat.ask("executor", ASKED)).text
    finally:
        await chat.close()


async def optimize(file: Path, server: Server, **changes: object) -> OptimizeReport:
    kernel = KernelRequest(file, arguments={"x": parse_spec("f32[128,512]")})
    llm = {"base_url": server.url, "model": "m", **changes.pop("llm", {})}  # type: ignore[dict-item]
    request = OptimizeRequest(kernel, quick(), agents="llm", llm=llm)
    profiler = changes.pop("profiler", None) or FakeProfiler()
    return await optimize_kernel(evolve(request, **changes), profiler=profiler)  # type: ignore[arg-type]


# -- the whole loop -------------------------------------------------------------------


async def test_the_loop_improves_a_kernel_with_nothing_but_a_url_and_a_model(
    file: Path, serve: Callable[[Mind], Server]
) -> None:
    server = serve(walking)
    report = await optimize(file, server)
    assert report.new_text is not None
    assert report.correct is True
    assert latency(*point(report.new_text)) < latency(1, 1)
    assert report.speedup == pytest.approx(latency(1, 1) / latency(*point(report.new_text)))
    assert report.usage.tokens == server.prompt_tokens + server.completion_tokens
    assert report.usage.prompt_tokens == server.prompt_tokens
    assert report.usage.calls == len(server.requests)
    assert report.usage.cost_usd is None
    assert set(server.keys) == {f"Bearer {SECRET}"}
    memory = OptimizationMemory()
    titles = {e.title for e in memory.list()}
    authors = {e.origin.author for e in memory.list()}
    memory.close()
    assert "Walk downhill" in titles
    assert authors == {"m"}


async def test_prompts_say_what_is_at_hand(file: Path, serve: Callable[[Mind], Server]) -> None:
    server = serve(walking)
    await optimize(file, server)
    planning = server.requests[server.roles.index("planner")]["messages"]
    assert "trn1" in planning[0]["content"]
    assert "7|     A = 1" in planning[1]["content"]
    assert "x=f32[128,512]" in planning[1]["content"]
    assert "latency 3.1 ms" in planning[1]["content"]
    later = [r for r, role in zip(server.requests, server.roles, strict=True) if role == "planner"]
    assert "Walk downhill" in later[-1]["messages"][1]["content"]


async def test_exchanges_are_recorded_without_the_key_and_replayed(
    file: Path, serve: Callable[[Mind], Server]
) -> None:
    server = serve(walking)
    first = await optimize(file, server, llm={"price_input": 2.0, "price_output": 8.0})
    assert first.usage.cost_usd == pytest.approx(
        (server.prompt_tokens * 2 + server.completion_tokens * 8) / 1e6
    )
    store = RunStore()
    exported = json.dumps(store.export(first.run or ""))
    spending = run_spending(store, first.run or "")
    store.close()
    assert sum(row["tokens"] for row in spending) == first.usage.tokens
    assert sum(row["cost_usd"] for row in spending) == pytest.approx(first.usage.cost_usd)
    assert {row["role"] for row in spending} == {"planner", "executor", "summarizer"}
    # The landscape has no peak, so nothing can be said about its points.
    assert {row["cost_usd_per_point"] for row in spending} == {None}
    assert SECRET not in exported
    assert "Here you are" in exported
    asked = len(server.requests)
    again = await optimize(file, server, replay=first.run, llm={"model": None})
    assert len(server.requests) == asked
    assert again.new_text == first.new_text
    assert again.usage == first.usage
    assert again.run != first.run


async def test_a_replay_that_does_not_fit_says_so(
    file: Path, serve: Callable[[Mind], Server]
) -> None:
    server = serve(walking)
    first = await optimize(file, server)
    store = RunStore()
    with store._database.write() as connection:
        connection.execute("DELETE FROM exchanges WHERE role = 'planner'")
    store.close()
    with pytest.raises(RequestError, match="no reply to this request of the planner"):
        await optimize(file, server, replay=first.run, llm={"model": None})


async def test_a_resumed_run_pays_for_no_reply_twice(
    file: Path, serve: Callable[[Mind], Server]
) -> None:
    server = serve(walking)
    whole = await optimize(file, server)
    other = serve(walking)
    profiler = FakeProfiler(hold_after=9)
    kernel = KernelRequest(file, arguments={"x": parse_spec("f32[128,512]")})
    request = OptimizeRequest(
        kernel, quick(), agents="llm", llm={"base_url": other.url, "model": "m"}, use_memory=False
    )
    task = asyncio.create_task(optimize_kernel(request, profiler=profiler))
    await profiler.held.acquire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    paid = len(other.requests)
    store = RunStore()
    run = store.runs()[0].id
    store.close()
    resumed = await optimize_kernel(evolve(request, resume=run), profiler=FakeProfiler())
    fresh = await optimize_kernel(request, profiler=FakeProfiler())
    assert resumed.new_text == fresh.new_text
    assert resumed.usage == fresh.usage
    replies = resumed.usage.calls
    assert len(other.requests) == replies + fresh.usage.calls
    assert 0 < paid < replies
    assert whole.new_text is not None


async def test_one_role_may_stay_with_the_catalogue(
    file: Path, serve: Callable[[Mind], Server]
) -> None:
    server = serve(walking)
    (file.parent / "pyproject.toml").write_text(
        '[tool.accelopt.llm]\nsummarizer = "offline"\n[tool.accelopt.llm.fixer]\nmodel = "other"\n'
    )
    report = await optimize(file, server)
    assert report.improved
    assert server.count("summarizer") == 0
    memory = OptimizationMemory()
    assert {e.origin.author for e in memory.list()} == {"offline"}
    memory.close()


# -- what goes wrong ------------------------------------------------------------------

FAULTS = {
    "429": Answer(status=429),
    "429 with a time to wait": Answer(status=429, headers={"Retry-After": "0.01"}),
    "500": Answer(status=500),
    "503": Answer(status=503),
    "an empty reply": Answer(raw=b"data: [DONE]\n\n"),
    "nothing at all": Answer(raw=b""),
    "white space": Answer("   \n\n"),
    "a cut stream": Answer(cut_after=120),
    "no end": Answer(finish=None, usage=False, done=False),
    "garbled events": Answer(raw=b'data: {"choices": [{"del\x00\xff\n\nda: \x80\x81\n\n'),
    "an error inside the stream": Answer(raw=b'data: {"error": {"message": "overloaded"}}\n\n'),
    "html": Answer(raw=b"<html><body>Bad gateway</body></html>"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_passing_faults_lose_nothing(
    fault: Answer, file: Path, serve: Callable[[Mind], Server]
) -> None:
    well = await optimize(file, serve(walking), use_memory=False)
    places = {0: fault, 3: fault, 4: fault, 9: fault}
    server = serve(faulty(walking, places))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accelopt_lsp.agents.llm.client.FIRST_WAIT_S", 0.001)
        report = await optimize(file, server, use_memory=False)
    assert report.new_text == well.new_text
    assert len(server.requests) > well.usage.calls


REFUSED = {
    "stream_options": "Unsupported parameter: 'stream_options'",
    "seed": "seed is not supported",
    "temperature": "temperature does not support 0.3 with this model",
    "max_tokens": "Use 'max_completion_tokens' instead of 'max_tokens'",
}


@pytest.mark.parametrize(("name", "message"), REFUSED.items())
async def test_parameters_that_an_endpoint_refuses_are_left_out(
    name: str, message: str, serve: Callable[[Mind], Server]
) -> None:
    def picky(role: str, messages: list[dict[str, str]], number: int) -> Answer:
        if name in server.requests[number]:
            return Answer(status=400, body={"error": {"message": message}})
        return Answer("fine")

    server = serve(picky)
    chat = models(server, temperature=0.3, max_output_tokens=100)
    assert (await chat.ask("executor", ASKED)).text == "fine"
    assert (await chat.ask("executor", ASKED)).text == "fine"
    await chat.close()
    assert len(server.requests) == 3
    assert name not in server.requests[1]
    assert ("max_completion_tokens" in server.requests[1]) == (name == "max_tokens")


async def test_a_server_that_does_not_stream(serve: Callable[[Mind], Server]) -> None:
    server = serve(lambda *_: Answer("whole", streams=False))
    assert await ask(server) == "whole"


async def test_an_endless_reply_is_cut_off(serve: Callable[[Mind], Server]) -> None:
    server = serve(lambda *_: Answer("x" * 9_700, endless=True))
    chat = models(server)
    reply = await chat.ask("executor", ASKED)
    await chat.close()
    assert reply.cut
    assert MAX_REPLY_CHARS < len(reply.text) < MAX_REPLY_CHARS + 200


async def test_a_server_that_hangs_is_given_up(serve: Callable[[Mind], Server]) -> None:
    server = serve(lambda *_: Answer("late", wait=1.0))
    with pytest.raises(RoleFailure, match="gave no reply in 2 tries"):
        await ask(server, timeout_seconds=0.05, retries=1)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "API key was refused"), (403, "refused"), (404, "a model of this endpoint")],
)
async def test_a_wrong_key_or_model_ends_the_run_at_once(
    status: int, words: str, file: Path, serve: Callable[[Mind], Server]
) -> None:
    message = f"no access with {SECRET}"
    server = serve(lambda *_: Answer(status=status, body={"error": {"message": message}}))
    with pytest.raises(RequestError, match=words) as caught:
        await optimize(file, server)
    assert SECRET not in str(caught.value)
    assert len(server.requests) == 1


async def test_no_server_ends_the_run_with_advice(file: Path) -> None:
    with serving(walking) as server:
        pass
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accelopt_lsp.agents.llm.client.FIRST_WAIT_S", 0.001)
        with pytest.raises(RequestError, match="is it running"):
            await optimize(file, server)


async def test_one_request_that_fails_for_good_costs_only_itself(
    serve: Callable[[Mind], Server],
) -> None:
    too_long = {"error": {"message": "context length exceeded"}}

    def mind(role: str, messages: list[dict[str, str]], number: int) -> Answer:
        return Answer(status=400, body=too_long) if number == 1 else Answer("fine")

    server = serve(mind)
    chat = models(server)
    await chat.ask("executor", ASKED)
    with pytest.raises(LlmError, match="context length exceeded"):
        await chat.ask("executor", ASKED)
    assert (await chat.ask("executor", ASKED)).text == "fine"
    await chat.close()


REPLIES = {
    "prose only": "I would rather not.",
    "a placeholder": "```python\n@nki.jit\ndef kernel(x):\n    A = 2\n    # rest as before\n```",
    "broken code": "```python\n@nki.jit\ndef kernel(x:\n    A = 2\n```",
    "other parameters": "```python\n@nki.jit\ndef kernel(x, y):\n    A = 2\n    B = 1\n```",
    "another function": "```python\ndef f():\n    pass\n\ndef g():\n    pass\n```",
    "a diff that does not fit": "```diff\n@@ -1 +1 @@\n-    Z = 1\n+    Z = 2\n```",
    "deep nesting": "```python\nx = " + "(" * 5_000 + ")" * 5_000 + "\n```",
    "null bytes": "```python\ndef kernel(x):\n    return '\x00'\n```",
}


@pytest.mark.parametrize("text", REPLIES.values(), ids=REPLIES)
async def test_unusable_code_goes_to_the_fixer_with_the_reason(
    text: str, file: Path, serve: Callable[[Mind], Server]
) -> None:
    def mind(role: str, messages: list[dict[str, str]], number: int) -> Answer:
        if role == "executor":
            return Answer(text)
        if role == "fixer":
            reasons.append(messages[1]["content"].partition("# Why it was rejected")[2])
            return Answer(f"```python\n{at(2, 1)[at(2, 1).index('@nki') :]}```")
        return walking(role, messages, number)

    reasons: list[str] = []
    server = serve(mind)
    report = await optimize(file, server, search=quick(fix_rounds=1, iterations=1, plans=1))
    assert report.new_text == at(2, 1)
    assert len(reasons) == 1
    assert reasons[0].partition("# Calls")[0].strip()


async def test_a_failing_attempt_is_repaired_with_the_exact_error(
    file: Path, serve: Callable[[Mind], Server]
) -> None:
    server = serve(walking)
    profiler = FakeProfiler(fails=frozenset({(1, 4)}))
    search = quick(fix_rounds=2, iterations=1, plans=6, beam=1)
    report = await optimize(file, server, search=search, profiler=profiler)
    fixes = [r for r, role in zip(server.requests, server.roles, strict=True) if role == "fixer"]
    assert len(fixes) == 1
    assert "SBUF overflow: block of 4" in fixes[0]["messages"][1]["content"]
    assert report.improved


# -- limits ---------------------------------------------------------------------------


async def test_a_budget_is_overshot_by_no_more_than_what_is_in_flight(
    file: Path, serve: Callable[[Mind], Server]
) -> None:
    free = await optimize(file, serve(walking), use_memory=False)
    server = serve(walking)
    limit = free.usage.tokens // 2
    report = await optimize(
        file, server, use_memory=False, llm={"budget_tokens": limit, "concurrency": 2}
    )
    most = max(
        sum(len(m["content"]) for m in request["messages"]) // 4 + 300
        for request in server.requests
    )
    assert server.most_at_once <= 2
    assert limit <= report.usage.tokens <= limit + 2 * most
    assert "tokens is used up" in report.stopped
    assert report.improved


async def test_a_budget_in_dollars_needs_prices(
    file: Path, serve: Callable[[Mind], Server]
) -> None:
    server = serve(walking)
    with pytest.raises(RequestError, match="price-input"):
        await optimize(file, server, llm={"budget_usd": 1.0})
    prices = {"price_input": 1.0, "price_output": 1.0}
    report = await optimize(file, server, llm={"budget_usd": 1e-9, **prices})
    assert "is used up" in report.stopped
    assert report.usage.calls == 1


async def test_budget_is_checked_before_each_request(serve: Callable[[Mind], Server]) -> None:
    chat = models(serve(lambda *_: Answer("fine")), budget_tokens=1)
    await chat.ask("executor", ASKED)
    with pytest.raises(OutOfBudget):
        await chat.ask("executor", ASKED)
    await chat.close()


async def test_no_more_requests_at_once_than_allowed(serve: Callable[[Mind], Server]) -> None:
    server = serve(lambda *_: Answer("fine", wait=0.05))
    chat = models(server, concurrency=3)
    async with asyncio.TaskGroup() as group:
        for _ in range(9):
            group.create_task(chat.ask("executor", ASKED))
    await chat.close()
    assert server.most_at_once == 3
