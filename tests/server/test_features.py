"""Every feature over stdio, with children whose answers are known."""

from __future__ import annotations

import asyncio
import sys

import pytest
from lsprotocol import types as lsp
from pytest_lsp import make_test_lsp_client

from tests.server.conftest import Session

URI = "file:///tmp/kernel.py"
KERNEL = """import nki
from nki import isa as nisa, language as nl


@nki.jit
def fast(x):
    buf = nl.ndarray((128, 16), nl.bfloat16)
    for i in nl.affine_range(8):
        tile = nl.load(x)
        nisa.activation(tile, nl.exp, tile)
    return DEFECT


def helper():
    pass
"""


async def test_initialize_offers_what_the_server_does(session: Session):
    found = (await session.start()).capabilities
    sync = found.text_document_sync
    assert isinstance(sync, lsp.TextDocumentSyncOptions)
    assert sync.change == lsp.TextDocumentSyncKind.Incremental
    assert found.inlay_hint_provider.resolve_provider
    assert found.code_action_provider.resolve_provider
    assert found.hover_provider
    assert found.code_lens_provider
    assert found.diagnostic_provider.identifier == "accelopt"
    assert set(found.execute_command_provider.commands) == {
        "accelopt.optimizeKernel",
        "accelopt.optimizeLoop",
        "accelopt.profileKernel",
        "accelopt.showTimeline",
        "accelopt.switchTarget",
        "accelopt.setArguments",
        "accelopt.forgetStrategy",
        "accelopt.explainKernel",
        "accelopt.cancel",
    }


@pytest.mark.parametrize("encoding", list(lsp.PositionEncodingKind))
async def test_positions_are_in_the_agreed_encoding(session: Session, encoding):
    result = await session.start(encoding=encoding)
    assert result.capabilities.position_encoding == encoding
    session.open(URI, "import nki\nx = '😋'; DEFECT\n")
    report = await session.diagnostics(URI)
    column = {"utf-8": 12, "utf-16": 10, "utf-32": 9}[encoding.value]
    place = lsp.Range(lsp.Position(1, column), lsp.Position(1, column + 6))
    assert [d.range for d in report.items] == [place]


async def test_pulled_diagnostics_and_their_result_id(session: Session):
    await session.start()
    session.open(URI, KERNEL)
    report = await session.diagnostics(URI)
    assert report.kind == "full"
    (found,) = report.items
    assert (found.code, found.source) == ("R023", "accelopt")
    assert found.severity == lsp.DiagnosticSeverity.Error
    assert list(found.tags) == [lsp.DiagnosticTag.Deprecated]
    assert found.related_information[0].message == "imported here"
    assert found.related_information[0].location.uri == URI
    again = await session.diagnostics(URI, report.result_id)
    assert again.kind == "unchanged"
    assert again.result_id == report.result_id
    session.change(URI, KERNEL.replace("DEFECT", "buf"))
    fixed = await session.diagnostics(URI, report.result_id)
    assert (fixed.kind, list(fixed.items)) == ("full", [])
    assert session.client.diagnostics == {}


async def test_diagnostics_are_pushed_to_clients_that_cannot_pull(session: Session):
    await session.start(pull=False)
    session.open(URI, KERNEL)
    await session.until(lambda: session.client.diagnostics.get(URI))
    session.change(URI, KERNEL.replace("DEFECT", "buf"))
    await session.until(lambda: session.client.diagnostics.get(URI) == ())
    session.change(URI, KERNEL)
    await session.until(lambda: session.client.diagnostics.get(URI))
    session.client.text_document_did_close(
        lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(URI))
    )
    await session.until(lambda: session.client.diagnostics.get(URI) == ())


async def test_files_without_nki_are_left_alone(session: Session):
    await session.start()
    session.open(URI, "DEFECT\n")
    assert (await session.diagnostics(URI)).items == ()
    assert await session.hints(URI) == []


async def test_hints_of_the_visible_range_with_lazy_tooltips(session: Session):
    await session.start()
    session.open(URI, KERNEL)
    hints = await session.hints(URI)
    assert [(h.position.line, h.label) for h in hints] == [
        (7, "8 trips"),
        (8, "4 KiB, 64 B descriptors"),
    ]
    assert hints[1].position.character == len("        tile = nl.load(x)")
    assert hints[1].tooltip is None
    resolved = await session.client.inlay_hint_resolve_async(hints[1])
    assert resolved.tooltip.value == "8 x 512 B"
    assert [h.position.line for h in await session.hints(URI, 8, 20)] == [8]


async def test_tooltips_come_at_once_where_nothing_is_resolved(session: Session):
    await session.start(lazy=False)
    session.open(URI, KERNEL)
    assert (await session.hints(URI))[1].tooltip.value == "8 x 512 B"


async def test_hints_follow_their_lines_while_the_analysis_lags(session: Session):
    await session.start()
    session.open(URI, KERNEL)
    await session.hints(URI)
    session.change(URI, "# a new line\n" + KERNEL)
    assert [h.position.line for h in await session.hints(URI)] == [8, 9]


async def test_clients_without_refresh_wait_for_the_current_text(session: Session):
    await session.start(refresh=False)
    session.open(URI, KERNEL)
    await session.hints(URI)
    session.change(URI, KERNEL.replace("        tile = nl.load(x)\n", ""))
    assert [h.label for h in await session.hints(URI)] == ["8 trips"]


async def test_lenses(session: Session):
    await session.start()
    session.open(URI, KERNEL)
    lenses = await session.lenses(URI)
    assert {lens.range.start.line for lens in lenses} == {4}
    assert [lens.command.command for lens in lenses] == [
        "accelopt.explainKernel",
        "accelopt.optimizeKernel",
        "accelopt.profileKernel",
        "accelopt.showTimeline",
        "accelopt.switchTarget",
    ]
    assert lenses[0].command.title == (
        "2 ms estimated (1.8 ms to 2.2 ms) · dma bound · 49 % of peak · trn2"
    )
    assert all(list(lens.command.arguments) == [URI, "fast"] for lens in lenses)


async def test_set_arguments_inserts_a_directive(session: Session):
    await session.start()
    text = KERNEL.replace("def fast", "def unset")
    session.open(URI, text)
    lenses = await session.lenses(URI)
    assert [lens.command.command for lens in lenses][1:] == [
        "accelopt.setArguments",
        "accelopt.switchTarget",
    ]
    assert lenses[0].command.title == "Arguments unknown: x · trn2"
    await session.command("accelopt.setArguments", URI, "unset")
    await session.until(lambda: session.edits)
    assert session.texts[URI] == text.replace("@nki", "# accelopt: x=bf16[128,512]\n@nki")
    await session.command("accelopt.optimizeKernel", URI, "unset")
    await session.message("Set arguments")


async def test_hover_on_names_loops_and_buffers(session: Session):
    await session.start()
    session.open(URI, KERNEL)
    await session.diagnostics(URI)
    load = await session.hover(URI, "nl.load", 4)
    assert load is not None
    assert "nl.load(src, dtype=None)" in load
    assert "Executions: 8" in load
    assert "DMA: 900 ns, 50 % of this engine's time" in load
    assert "Every byte is read 3 times" in load
    activation = await session.hover(URI, "nisa.activation", 7)
    assert activation is not None
    assert "Runs on: Scalar Engine" in activation
    loop = await session.hover(URI, "for i", 1)
    assert loop is not None
    assert "Loop over `i`" in loop
    assert "8 iterations" in loop
    assert "DMA: 900 ns (50 % of the kernel's)" in loop
    both = await session.hover(URI, "nl.affine_range", 5)
    assert both is not None
    assert "8 iterations" in both
    assert "iterations are independent" in both
    buffer = await session.hover(URI, "buf = ", 1)
    assert buffer is not None
    assert "bfloat16[128, 16] in SBUF" in buffer
    assert "2 KiB per partition" in buffer
    assert await session.hover(URI, "helper", 1) is None
    assert await session.hover(URI, "return", 1) is None


async def test_hover_on_the_module_part_of_a_name_is_no_api(session: Session):
    await session.start()
    session.open(URI, KERNEL)
    await session.diagnostics(URI)
    assert await session.hover(URI, "nl.load", 0) is None


async def test_a_slow_analysis_is_given_up_and_the_server_lives(session: Session):
    await session.start()
    session.open(URI, KERNEL)
    await session.diagnostics(URI)
    session.change(URI, KERNEL + "# slow\n")
    assert (await session.diagnostics(URI)).items == ()
    await session.message("took longer")
    session.change(URI, KERNEL + "# crash\n")
    await session.diagnostics(URI)
    session.change(URI, KERNEL)
    assert len((await session.diagnostics(URI)).items) == 1


async def test_configuration_of_the_client(session: Session):
    session.client.set_configuration(
        {"inlayHints": {"kinds": ["loop"]}, "codeLens": {"enabled": False}}, section="accelopt"
    )
    await session.start()
    session.open(URI, KERNEL)
    await session.diagnostics(URI)
    assert [h.label for h in await session.hints(URI)] == ["8 trips"]
    assert await session.lenses(URI) == []
    session.client.set_configuration(
        {"inlayHints": {"enabled": False}, "diagnostics": {"run": "never"}}, section="accelopt"
    )
    session.client.workspace_did_change_configuration(lsp.DidChangeConfigurationParams(None))
    assert "onType, onSave or off" in await session.message("diagnostics.run")
    assert await session.hints(URI) == []


async def test_diagnostics_on_save_only(session: Session):
    await session.start(
        options={"settings": {"diagnostics": {"run": "onSave"}}}, configuration=False
    )
    session.open(URI, KERNEL)
    first = await session.diagnostics(URI)
    session.change(URI, KERNEL.replace("DEFECT", "buf"))
    session.change(URI, KERNEL.replace("DEFECT", "DEFECT + DEFECT"))
    held = await session.diagnostics(URI, first.result_id)
    assert held.kind in ("unchanged", "full")
    session.change(URI, KERNEL.replace("DEFECT", "buf"))
    session.client.text_document_did_save(
        lsp.DidSaveTextDocumentParams(lsp.TextDocumentIdentifier(URI))
    )
    await session.until(lambda: session.client.diagnostic_refresh_count)
    assert (await session.diagnostics(URI)).items == ()


async def test_commands_with_wrong_arguments_say_so(session: Session):
    await session.start()
    await session.command("accelopt.optimizeKernel")
    await session.message("needs a document's URI")
    await session.command("accelopt.profileKernel", URI, "fast")
    await session.message("Open the kernel's file first")
    session.open(URI, KERNEL)
    await session.command("accelopt.optimizeKernel", URI, "missing")
    assert "it has fast" in await session.message("no kernel 'missing'")
    assert await session.command("accelopt.cancel", "no-such-job") is False


async def test_one_client_over_tcp():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "accelopt_lsp", "serve", "--tcp", "0", stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    port = int((await process.stderr.readline()).decode().rpartition(":")[2])
    client = make_test_lsp_client()
    await client.start_tcp("127.0.0.1", port)
    result = await Session(client).start()
    assert result.server_info is not None
    assert result.server_info.name == "accelopt"
    await client.shutdown_session()
    assert await asyncio.wait_for(process.wait(), 30) == 0
    await client.stop()
