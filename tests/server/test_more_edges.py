"""Values, places and names that make no sense, in settings, folders and kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
