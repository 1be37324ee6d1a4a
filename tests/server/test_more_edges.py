"""Values, places and names that make no sense, in settings, folders and kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import FAKE_SERVER
from tests.server.raw import raw_client
from tests.server.test_edges import ABLE, KERNEL, errors

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("ignore", [5, {"a": 1}, [5], [None], "R0"])
async def test_a_workspace_whose_settings_and_folders_are_nonsense(tmp_path: Path, ignore: Any):
    (tmp_path / "k.py").write_text(KERNEL, "utf-8")
    names = [tmp_path.as_uri(), "http://[::1", "", "file:///none%00"]
    settings = {"ignore": ignore, "diagnostics": {"workspace": True}}
    async with raw_client() as client:
        await client.start(
            ABLE,
            workspaceFolders=[{"uri": name, "name": "x"} for name in names],
            initializationOptions={"settings": settings},
        )
        found = await client.get("workspace/diagnostic", {"previousResultIds": []})
        assert (tmp_path / "k.py").as_uri() in [item["uri"] for item in found["items"]]
        assert errors(client) == []


async def test_a_kernel_with_a_name_that_no_file_can_have():
    name = "long" * 100
    text = KERNEL.replace("scaling", name)
    async with raw_client(FAKE_SERVER) as client:
        shown: list[str] = []
        able = {**ABLE, "window": {"showDocument": {"support": True}}}

        def show(params: Any) -> Any:
            shown.append(params["uri"])
            return {"success": True}

        client.handlers["window/showDocument"] = show
        await client.start(able)
        client.open("file:///k.py", text)
        for command in ("explainKernel", "showTimeline"):
            arguments = {"command": f"accelopt.{command}", "arguments": ["file:///k.py", name]}
            await client.get("workspace/executeCommand", arguments)
        await client.message("open it at ui.perfetto.dev")
        assert len(shown) == 2


async def test_half_a_character_is_run_like_any_other(tmp_path: Path):
    text = KERNEL.replace("rows, columns =", "'\ud83d'\n    rows, columns =", 1)
    uri = (tmp_path / "k.py").as_uri()
    async with raw_client() as client:
        await client.start(ABLE)
        client.open(uri, text)
        arguments = {"command": "accelopt.profileKernel", "arguments": [uri, "scaling"]}
        await client.get("workspace/executeCommand", arguments)
        await client.message("simulated")
        assert errors(client) == []


async def test_what_cannot_be_sent_to_the_worker_keeps_nobody_waiting():
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    async with raw_client() as client:
        await client.start(ABLE, initializationOptions={"settings": {"ignore": deep}})
        client.open("file:///k.py", KERNEL)
        document = {"textDocument": {"uri": "file:///k.py"}}
        await client.ask("textDocument/diagnostic", document)
        assert (await client.ask("textDocument/documentSymbol", document)).keys() > {"id"}
