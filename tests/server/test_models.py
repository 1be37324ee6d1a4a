"""Optimizing with a model from an editor: settings, key, trust, spend; with real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from accelopt_lsp.server.configuration import Configuration, read_configuration
from accelopt_lsp.server.processes import descendants
from tests.agents.fusing import fusing
from tests.agents.llm_server import Answer, serving
from tests.server.conftest import REAL_SERVER, connected

KEY = "sk-of-the-editor-3141592653"
DIRECTIVE = "# accelopt: x=bf16[128,512]\n"


def once(role: str, messages: list[dict[str, str]], number: int) -> Answer:
    """Plans once, as a model whose ideas are used up."""
    if role == "planner" and number > 0:
        return Answer('{"plans": []}')
    return fusing(role, messages, number)


def workspace(tmp_path: Path, examples: Path) -> Path:
    """A folder with the softmax kernel, small."""
    text = (examples / "current" / "softmax.py").read_text()
    head, decorator, rest = text.partition("@nki.jit\n")
    kept = "".join(line for line in head.splitlines(True) if not line.startswith("# accelopt:"))
    file = tmp_path / "softmax.py"
    file.write_text(f"{kept}{DIRECTIVE}{decorator}{rest}")
    return file


def command_lines(pid: int) -> str:
    """Command lines of a process and all below it."""
    found = []
    for process in (pid, *(p.pid for p in descendants(pid))):
        try:
            found.append(Path(f"/proc/{process}/cmdline").read_bytes().decode("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(found)


@pytest.mark.slow
async def test_a_model_from_the_editors_settings(
    tmp_path: Path, data_dir: Path, examples: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = workspace(tmp_path, examples)
    uri = file.as_uri()
    seen: list[str] = []
    with serving(once) as server:
        models = {"baseUrl": server.url, "model": "m", "priceInput": 1.0, "priceOutput": 4.0}
        settings = {"optimize": {"agents": "llm", "budgetSeconds": 100}, "llm": models}
        environment = {"ACCELOPT_LLM_API_KEY": KEY, "ACCELOPT_LOG_LEVEL": "DEBUG"}
        async with connected(REAL_SERVER, **environment) as session:
            session.answers = ["Apply"]
            await session.start(options={"settings": settings}, configuration=False)
            session.open(uri, file.read_text())
            job = (await session.command("accelopt.optimizeKernel", uri))["job"]

            looked = 0

            def ended() -> list[object]:
                nonlocal looked
                if looked < len(server.requests):
                    looked = len(server.requests)
                    seen.append(command_lines(session.pid))
                return session.progress(job, lsp.WorkDoneProgressEnd)

            await session.until(ended, 400)
            await session.until(lambda: session.edits)
            (question,) = session.questions
            reports = session.progress(job, lsp.WorkDoneProgressReport)
            talk = "\n".join([*session.said(), *(m.message for m in session.client.log_messages)])
    assert "activation_reduce" in session.texts[uri]
    assert "Models: " in question.message
    assert "$0." in question.message
    assert any("requests, " in r.message and "best " in r.message for r in reports)
    assert server.keys == [f"Bearer {KEY}"] * len(server.requests)
    kept = b"".join(p.read_bytes() for p in data_dir.rglob("*") if p.is_file())
    assert b"activation_reduce" in kept
    written = "".join(capfd.readouterr())
    for name, text in {
        "processes": "\n".join(seen),
        "talk": talk + question.message,
        "log": written,
        "run store": kept.decode("utf-8", "replace"),
        "prompts": json.dumps(server.requests),
    }.items():
        assert KEY not in text, name
    assert "job_process" in "\n".join(seen)


@pytest.mark.slow
async def test_cancelling_is_immediate_while_a_model_thinks(
    tmp_path: Path, data_dir: Path, examples: Path
) -> None:
    file = workspace(tmp_path, examples)
    uri = file.as_uri()
    with serving(lambda *_: Answer("late", wait=4.0)) as server:
        settings = {"optimize.agents": "llm", "llm.baseUrl": server.url, "llm.model": "m"}
        async with connected(REAL_SERVER) as session:
            await session.start(options={"settings": settings}, configuration=False)
            session.open(uri, file.read_text())
            job = (await session.command("accelopt.optimizeKernel", uri))["job"]
            await session.until(lambda: server.requests, 240)
            family = set(session.children())
            assert await session.command("accelopt.cancel", job) is True
            await session.until(lambda: session.progress(job, lsp.WorkDoneProgressEnd), 10)
            await session.until(lambda: len(family & set(session.children())) == 1, 10)
            assert session.edits == []


async def test_no_model_is_said_with_what_to_set(
    tmp_path: Path, data_dir: Path, examples: Path
) -> None:
    file = workspace(tmp_path, examples)
    async with connected(REAL_SERVER) as session:
        options = {"settings": {"optimize": {"agents": "llm"}}}
        await session.start(options=options, configuration=False)
        session.open(file.as_uri(), file.read_text())
        await session.command("accelopt.optimizeKernel", file.as_uri())
        assert "accelopt.llm.model" in await session.message("no model for the planner", 240)


async def test_an_untrusted_workspace_reaches_no_endpoint(
    tmp_path: Path, data_dir: Path, examples: Path
) -> None:
    file = workspace(tmp_path, examples)
    with serving(fusing) as server:
        (tmp_path / "pyproject.toml").write_text(
            f'[tool.accelopt.llm]\nbase-url = "{server.url}"\nmodel = "m"\n'
        )
        settings = {"optimize": {"agents": "llm"}, "llm": {"baseUrl": server.url, "model": "m"}}
        async with connected(REAL_SERVER, ACCELOPT_LLM_API_KEY=KEY) as session:
            options = {"trusted": False, "settings": settings}
            await session.start(options=options, configuration=False)
            session.open(file.as_uri(), file.read_text())
            assert await session.command("accelopt.optimizeKernel", file.as_uri()) is None
            await session.message("not trusted")
        assert server.requests == []


# -- reading the settings ---------------------------------------------------------------

READ = {
    "one object": (
        {"llm": {"baseUrl": "http://h/v1", "model": "m", "maxOutputTokens": 9}},
        {"base_url": "http://h/v1", "model": "m", "max_output_tokens": 9},
    ),
    "names with dots": (
        {"llm.baseUrl": "http://h/v1", "llm.budgetUsd": 2},
        {"base_url": "http://h/v1", "budget_usd": 2},
    ),
    "a role of its own": (
        {"llm": {"model": "m", "planner": {"model": "big", "reasoningEffort": "high"}}},
        {"model": "m", "planner": {"model": "big", "reasoning_effort": "high"}},
    ),
    "what is left empty": (
        {"llm": {"baseUrl": "", "model": "m", "budgetUsd": None, "fixer": {}}},
        {"model": "m"},
    ),
}


@pytest.mark.parametrize(("values", "expected"), READ.values(), ids=READ)
def test_settings_of_models(values: dict[str, object], expected: dict[str, object]) -> None:
    found, problems = read_configuration(values, Configuration())
    assert problems == ()
    assert dict(found.llm) == expected


WRONG = {
    "a key": ({"llm": {"apiKey": KEY}}, "secret store"),
    "an unknown name": ({"llm": {"modle": "m"}}, "unknown setting 'modle'"),
    "no endpoint": ({"llm": {"baseUrl": "ftp://h"}}, "not the URL"),
    "a password": ({"llm": {"baseUrl": f"http://u:{KEY}@h/v1"}}, "holds a user or a password"),
    "agents": ({"optimize": {"agents": "humans"}}, "offline or llm"),
    "a text": ({"llm": "m"}, "llm must be"),
}


@pytest.mark.parametrize(("values", "message"), WRONG.values(), ids=WRONG)
def test_settings_of_models_that_cannot_be_used(values: dict[str, object], message: str) -> None:
    found, problems = read_configuration(values, Configuration())
    assert message in " ".join(problems)
    assert KEY not in " ".join(problems)
    assert found.llm == {}
    assert found.agents == "offline"


def test_where_nothing_is_trusted_no_endpoint_is_taken() -> None:
    values = {"llm": {"baseUrl": "http://evil/v1", "model": "m"}, "optimize": {"agents": "llm"}}
    found, problems = read_configuration(values, Configuration(trusted=False))
    assert found.llm == {}
    assert problems == ()
