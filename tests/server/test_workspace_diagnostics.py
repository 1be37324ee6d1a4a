"""Files that are not open: checked when a client asks and the user wants it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lsprotocol import types as lsp

from tests.server.conftest import Session

BROKEN = """import nki
import nki.language as nl


@nki.jit
def kernel(x):
    text = "\N{CIRCLED LATIN SMALL LETTER A}"; tile = nl.nothing(x)
    return tile
"""


async def pull(real: Session, previous: dict[str, str] | None = None):
    ids = [lsp.PreviousResultId(uri, value) for uri, value in (previous or {}).items()]
    params = lsp.WorkspaceDiagnosticParams(ids)
    report = await real.client.workspace_diagnostic_async(params)
    return {item.uri: item for item in report.items}


async def test_a_folder_is_checked_again_when_something_was_saved(real: Session, tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(BROKEN, "utf-8")
    (tmp_path / "fine.py").write_text("import nki\n")
    one, two = ((tmp_path / f"{name}.py").as_uri() for name in ("one", "two"))
    real.client.set_configuration({"diagnostics": {"workspace": True}}, section="accelopt")
    folder = tmp_path.as_uri()
    real.client.set_configuration(
        {"diagnostics": {"workspace": True}}, section="accelopt", scope_uri=folder
    )
    result = await real.start(folders=[folder])
    assert result.capabilities.diagnostic_provider.workspace_diagnostics
    real.open(two, BROKEN)
    await real.diagnostics(two)
    found = await pull(real)
    assert found.keys() == {one}
    (item,) = [d for d in found[one].items if "nothing" in d.message]
    assert item.range.start == lsp.Position(6, BROKEN.split("\n")[6].index("nl.nothing"))
    waiting = asyncio.ensure_future(pull(real, {one: found[one].result_id}))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    saved = lsp.DidSaveTextDocumentParams(lsp.TextDocumentIdentifier(two))
    real.client.text_document_did_save(saved)
    assert (await waiting)[one].kind == "unchanged"
    (tmp_path / "one.py").write_text("import nki\n")
    real.client.text_document_did_save(saved)
    again = (await pull(real, {one: found[one].result_id}))[one]
    assert (again.kind, list(again.items)) == ("full", [])


async def test_nothing_is_checked_that_nobody_wants(real: Session, tmp_path: Path):
    (tmp_path / "one.py").write_text(BROKEN, "utf-8")
    await real.start(folders=[tmp_path.as_uri()])
    assert await pull(real) == {}
    assert await pull(real) == {}
