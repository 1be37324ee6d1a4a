"""Settings of the client and the project: what counts where, and what a wrong one says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp

from accelopt_lsp.server.client_settings import ClientSettings
from accelopt_lsp.server.configuration import Configuration, concerns_us, read_configuration
from tests.server.conftest import FAKE_SERVER, Session
from tests.server.raw import Unanswered, raw_client

KERNEL = """import nki
import nki.language as nl


@nki.jit
def fast(x):
    for i in nl.affine_range(8):
        tile = nl.load(x)
    return tile
"""
WRONG: dict[str, tuple[Any, str]] = {
    "misspelt": ({"inlayHint": {"enabled": True}}, "there is no inlayHint"),
    "misspelt below": ({"inlayHints": {"kind": ["loop"]}}, "did you mean inlayHints.kinds?"),
    "misspelt, with a dot": ({"codeLens.enable": True}, "did you mean codeLens.enabled?"),
    "no kind": ({"inlayHints": {"kinds": ["lop"]}}, "must be a list of loop, shape"),
    "no list": ({"inlayHints": {"kinds": "loop"}}, "must be a list of loop, shape"),
    "threshold": ({"inlayHints": {"thresholdPercent": 101}}, "must be from 0 to 100"),
    "no switch": ({"codeLens": {"enabled": 1}}, "codeLens.enabled must be a bool"),
    "no word": ({"diagnostics": {"run": "never"}}, "must be onType, onSave or off"),
    "log": ({"logLevel": "loud"}, "logLevel must be error, warning, info, debug"),
    "budget": ({"optimize": {"budgetSeconds": -1}}, "must be positive"),
    "budget beyond numbers": ({"optimize": {"budgetSeconds": 10**400}}, "must be positive"),
    "no object": (["target"], "must be an object"),
    "no target": ({"target": "trn9"}, "unknown target 'trn9'; known: trn1"),
    "no version": ({"nkiVersion": "new"}, "nkiVersion must be a version"),
    "no time": ({"timeoutSeconds": "long"}, "timeoutSeconds must be a positive number"),
    "no object below": ({"inlayHints": 5}, "inlayHints must be an object, got 5"),
}


@pytest.mark.parametrize(("values", "message"), WRONG.values(), ids=WRONG)
def test_wrong_settings_say_so_and_change_nothing(values: Any, message: str) -> None:
    found, problems = read_configuration(values, Configuration())
    assert len(problems) == 1
    assert message in problems[0]
    assert found == Configuration()


def test_all_settings_of_the_extension_are_known() -> None:
    package = Path(__file__).parents[2] / "editors" / "vscode" / "package.json"
    described = json.loads(package.read_text("utf-8"))["contributes"]["configuration"]
    defaults = {
        name.removeprefix("accelopt."): value["default"]
        for name, value in described["properties"].items()
        if "default" in value
    }
    found, problems = read_configuration(defaults, Configuration())
    assert problems == ()
    assert found.hints == Configuration().hints
    assert found.log_level == Configuration().log_level
    for value in described["properties"].values():
        assert value.get("description") or value.get("markdownDescription")


def test_only_sections_of_ours_are_taken_for_ours() -> None:
    assert concerns_us({"inlayHints.rich": True})
    assert concerns_us({"target": "trn1"})
    assert not concerns_us({"pylsp": {"enabled": True}})


def test_the_innermost_folder_counts() -> None:
    settings = ClientSettings()
    settings.add_folders(["file:///a", "file:///a/b"])
    settings.use({"codeLens.enabled": False}, "file:///a")
    assert not settings.of("file:///a/k.py").code_lens
    assert settings.of("file:///a/b/k.py").code_lens
    assert settings.of("file:///ab/k.py").code_lens
    settings.remove_folders(["file:///a"])
    assert settings.of("file:///a/k.py").code_lens
    settings.untrust()
    settings.use({"trusted": True})
    assert not settings.of("file:///a/b/k.py").trusted


async def test_each_folder_has_its_own_settings(session: Session) -> None:
    client = session.client
    one, two = "file:///tmp/one", "file:///tmp/two"
    client.set_configuration({}, section="accelopt")
    client.set_configuration({"codeLens": {"enabled": False}}, section="accelopt", scope_uri=one)
    client.set_configuration({"codeLens": {"enabled": True}}, section="accelopt", scope_uri=two)
    await session.start(folders=[one])
    first = session.open(f"{one}/kernel.py", KERNEL)
    second = session.open(f"{two}/kernel.py", KERNEL)
    await session.diagnostics(first)
    assert await session.lenses(first) == []
    assert await session.lenses(second) != []
    client.set_configuration({"codeLens": {"enabled": False}}, section="accelopt", scope_uri=two)
    change = lsp.WorkspaceFoldersChangeEvent(
        added=[lsp.WorkspaceFolder(two, "two")], removed=[lsp.WorkspaceFolder(one, "one")]
    )
    client.workspace_did_change_workspace_folders(lsp.DidChangeWorkspaceFoldersParams(change))
    await session.eventually(lambda: session.lenses(second), lambda found: found == [])
    assert await session.lenses(first) != []


async def test_settings_that_a_client_sends_by_itself(session: Session) -> None:
    await session.start(configuration=False)
    uri = session.open("file:///tmp/kernel.py", KERNEL)
    client = session.client
    sent = {"pylsp": {"x": 1}, "accelopt": {"inlayHints": {"kinds": ["loop"]}, "nope": 1}}
    client.workspace_did_change_configuration(lsp.DidChangeConfigurationParams(sent))
    await session.message("there is no nope")
    await session.eventually(
        lambda: session.hints(uri), lambda found: [h.label for h in found] == ["8 trips"]
    )
    client.workspace_did_change_configuration(lsp.DidChangeConfigurationParams(sent))
    await session.diagnostics(uri)
    assert sum("there is no nope" in text for text in session.said()) == 1


async def test_a_project_file_gets_its_diagnostics_and_loses_them(real: Session, tmp_path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[tool.accelopt]\ntargt = "trn1"\n')
    uri = project.as_uri()
    await real.start()
    real.open((tmp_path / "kernel.py").as_uri(), KERNEL)
    (found,) = await real.until(lambda: real.client.diagnostics.get(uri))
    assert (found.range.start.line, found.code) == (1, "settings")
    assert "did you mean target?" in found.message
    project.write_text('[tool.accelopt]\ntarget = "trn1"\n')
    change = lsp.FileEvent(uri, lsp.FileChangeType.Changed)
    real.client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams([change]))
    await real.until(lambda: real.client.diagnostics.get(uri) == ())


async def test_the_log_has_the_level_that_was_chosen(session: Session) -> None:
    session.client.set_configuration({"logLevel": "debug"}, section="accelopt")
    await session.start()
    session.open("file:///tmp/kernel.py", KERNEL)
    await session.until(lambda: session.logged("analysed kernel.py"))
    quiet = {"logLevel": "error", "semanticTokens": {"enabled": False}}
    session.client.set_configuration(quiet, section="accelopt")
    session.client.workspace_did_change_configuration(lsp.DidChangeConfigurationParams(None))
    known = lsp.SemanticTokensParams(lsp.TextDocumentIdentifier("file:///tmp/kernel.py"))
    await session.eventually(
        lambda: session.client.text_document_semantic_tokens_full_async(known), lambda t: t is None
    )
    session.client.set_trace(lsp.SetTraceParams(lsp.TraceValue.Verbose))
    session.open("file:///tmp/other.py", KERNEL)
    await session.until(lambda: any("analysed other.py" in t.message for t in session.traces))
    assert not session.logged("analysed other.py")


async def test_an_older_answer_does_not_replace_a_newer_one() -> None:
    """Two changes follow each other, and the client answers them in the wrong order."""
    held: list[Any] = []
    async with raw_client(FAKE_SERVER) as client:

        def configuration(params: Any) -> Any:
            held.append(params)
            return Unanswered()

        client.handlers["workspace/configuration"] = configuration
        await client.start({"workspace": {"configuration": True}})
        asked: list[Any] = []
        for count in (1, 2):
            while len(held) < count:
                await asyncio.sleep(0.01)
            if count == 1:
                client.notify("workspace/didChangeConfiguration", {"settings": None})
        asked = [m["id"] for m in client.heard if m["method"] == "workspace/configuration"]
        for number, switch in ((1, False), (0, True)):
            answer = [{"codeLens": {"enabled": switch}}]
            client.send({"id": asked[number], "result": answer})
        client.open("file:///k.py", KERNEL)
        document = {"textDocument": {"uri": "file:///k.py"}}
        await client.get("textDocument/diagnostic", document)
        assert not await client.get("textDocument/codeLens", document)
