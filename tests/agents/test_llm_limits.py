"""Limits that hold whatever a model does: tokens and dollars, length of prompts, the sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelopt_lsp.agents.llm.client import ChatModels, Exchange, Recorder
from accelopt_lsp.agents.llm.faults import LlmError
from accelopt_lsp.agents.llm.settings import llm_settings
from accelopt_lsp.agents.roles import OutOfBudget
from accelopt_lsp.nki.arguments import parse_spec
from accelopt_lsp.workbench.optimize import OptimizeRequest, optimize_kernel
from accelopt_lsp.workbench.requests import KernelRequest
from tests.agents.fusing import fusing
from tests.agents.landscape import TEXT, FakeProfiler, quick
from tests.agents.llm_server import Answer, Server, code_of, serving, walking
from tests.agents.llm_talk import error, event

pytestmark = pytest.mark.usefixtures("data_dir")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose mind a test sets."""
    with serving(lambda *_: Answer("fine")) as found:
        yield found


def counted(tokens: int, text: str = "fine") -> Answer:
    usage = {"prompt_tokens": tokens, "completion_tokens": 0}
    data = event({"content": text}, "stop") + event(usage=usage) + b"data: [DONE]\n\n"
    return Answer(raw=data)


COSTS = st.lists(st.integers(1, 900), min_size=1, max_size=14)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    costs=COSTS,
    limit=st.integers(1, 4_000),
    concurrency=st.integers(1, 4),
    empty=st.sets(st.integers(0, 20)),
    dollars=st.booleans(),
)
async def test_a_limit_is_overshot_by_no_more_than_the_requests_in_flight(
    server: Server, costs: list[int], limit: int, concurrency: int, empty: set[int], dollars: bool
) -> None:
    """Whatever requests cost, in whatever order they end, unusable answers included."""
    first = len(server.requests)
    sent: list[int] = []

    def mind(role: str, messages: list[dict[str, str]], number: int) -> Answer:
        cost = costs[(number - first) % len(costs)]
        sent.append(cost)
        return counted(cost, "" if number - first in empty else "fine")

    server.mind = mind
    given: dict[str, Any] = {"base_url": server.url, "model": "m", "concurrency": concurrency}
    given |= {"price_input": 1.0, "price_output": 1.0}
    given |= {"budget_usd": limit * 1e-6} if dollars else {"budget_tokens": limit}
    saved: list[Exchange] = []
    recorder = Recorder(save=saved.append)
    chat = ChatModels(llm_settings(None, given, {}), recorder, environment={}, first_wait=0.0)

    async def ask(number: int) -> str:
        message = {"role": "user", "content": f"request {number}"}
        try:
            return (await chat.ask("executor", (message,))).text
        except OutOfBudget:
            return "out"
        except LlmError:
            return "unusable"

    results = await asyncio.gather(*(ask(n) for n in range(25)))
    await chat.close()
    total = chat.ledger.total
    assert total.prompt == total.charged_tokens == sum(sent)
    assert total.cost_usd == pytest.approx(sum(sent) * 1e-6)
    assert total.calls == len(sent)
    assert total.charged_tokens < limit + concurrency * max(costs)
    if "out" in results:
        assert total.charged_tokens >= limit
    # What is paid for is recorded, whatever it was good for.
    assert sum((e.spent.prompt for e in saved), 0) == sum(sent)


async def optimized(file: Path, url: str | None, **changes: Any) -> Any:
    kernel = KernelRequest(file, arguments={"x": parse_spec("f32[128,512]")})
    llm = {"base_url": url, "model": "m", **changes.pop("llm", {})}
    request = OptimizeRequest(kernel, quick(), agents="llm", llm=llm, use_memory=False)
    return await optimize_kernel(evolve(request, **changes), profiler=FakeProfiler())


async def test_prompts_that_are_too_long_are_written_again(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(TEXT)
    longest = 3_900

    def small(role: str, messages: list[dict[str, str]], number: int) -> Answer:
        if sum(len(m["content"]) for m in messages) > longest:
            return error(400, "This model's maximum context length is 1200 tokens.")
        return walking(role, messages, number)

    with serving(small) as server:
        report = await optimized(file, server.url)
        assert report.improved
        assert "were shortened from about" in " ".join(report.notes)
        asked = len(server.requests)
        again = await optimized(file, server.url, replay=report.run, llm={"model": None})
        assert again.new_text == report.new_text
        assert len(server.requests) == asked
    with serving(small) as server:
        await optimized(file, server.url, llm={"context_tokens": 1_500})
        sizes = [sum(len(m["content"]) for m in r["messages"]) for r in server.requests]
        assert max(sizes) <= longest


async def test_a_kernel_that_fits_no_context_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(TEXT)
    with serving(lambda *_: error(400, "maximum context length is 100 tokens")) as server:
        report = await optimized(file, server.url)
    assert not report.improved
    assert "does not fit the context of m" in " ".join(report.notes)
    assert len(server.requests) <= 8


async def test_a_run_that_loses_its_endpoint_ends_and_goes_on_later(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(TEXT)

    def leaving(role: str, messages: list[dict[str, str]], number: int) -> Answer:
        """Gone for some requests while others are answered, and then for all."""
        return walking(role, messages, number) if number in (0, 1, 3, 4) else Answer(status=503)

    with serving(walking) as server:
        whole = await optimized(file, server.url)
    with serving(leaving) as server:
        report = await optimized(file, server.url, llm={"retries": 0})
        assert "--resume" in report.stopped
        server.mind = walking
        # The endpoint is the run's; nobody has to name it again.
        resumed = await optimized(file, None, resume=report.run)
    assert resumed.new_text == whole.new_text


# -- code of all kinds ------------------------------------------------------------------

SECRET = "sk-in-the-environment-42"
BODIES = {
    "forks": "import os\n    os.fork()",
    "starts a process": "import subprocess\n    subprocess.run(['true'])",
    "reads a file": "open('/etc/passwd').read()",
    "reads the environment": "import os\n    raise ValueError(os.environ['ACCELOPT_LLM_API_KEY'])",
    "reads its parent's environment": (
        "import os\n    raise ValueError(open(f'/proc/{os.getppid()}/environ').read())"
    ),
    "connects": "import socket\n    socket.create_connection(('127.0.0.1', 1))",
    "hangs": "while True:\n        pass",
    "speaks the other dialect": "y = nisa.tensor_tensor(x, x, op=nl.add)",
}


@pytest.mark.slow
def test_code_of_all_kinds_does_no_harm(examples: Path, tmp_path: Path, data_dir: Path) -> None:
    """Every attempt fails in the sandbox or before; the fixer hears why; nothing leaks."""
    file = tmp_path / "softmax.py"
    file.write_text((examples / "current" / "softmax.py").read_text())
    (tmp_path / "pyproject.toml").write_text("[tool.accelopt]\ntimeout-seconds = 10\n")
    names = list(BODIES)

    def mind(role: str, messages: list[dict[str, str]], number: int) -> Answer:
        prompt = messages[-1]["content"]
        if role == "planner":
            return Answer(json.dumps({"plans": [{"title": name} for name in names]}))
        if role == "executor":
            name = next(n for n in names if f"\n{n}\n" in prompt)
            head, doc, rest = code_of(messages).partition("    rows, columns")
            return Answer(f"```python\n{head}    {BODIES[name]}\n{doc}{rest}```")
        return fusing(role, messages, number)

    options = ("--iterations", "1", "--plans", str(len(names)), "--fix-rounds", "1", "--json")
    with serving(mind) as server:
        where = ("--llm-url", server.url, "--model", "m", "--arg", "x=bf16[128,512]")
        done = subprocess.run(
            [sys.executable, "-m", "accelopt_lsp", "optimize", str(file), *where, *options],
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
            env={**os.environ, "ACCELOPT_LLM_API_KEY": SECRET},
        )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["improved"] is False
    fixed = [r["messages"][1]["content"] for r in server.requests if "repair" in str(r)[:200]]
    assert {n for n in names if any(f"\n{n}\n" in prompt for prompt in fixed)} == set(names)
    everything = done.stdout + done.stderr + json.dumps(server.requests)
    everything += "".join(p.read_bytes().decode("utf-8", "replace") for p in data_dir.glob("*"))
    assert SECRET not in everything
    assert set(server.keys) == {f"Bearer {SECRET}"}


async def test_a_wrong_key_midway_keeps_what_was_found(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(TEXT)

    def revoked(role: str, messages: list[dict[str, str]], number: int) -> Answer:
        return walking(role, messages, number) if number < 9 else error(401, "revoked")

    with serving(revoked) as server:
        report = await optimized(file, server.url)
    assert report.improved
    assert "401" in report.stopped
