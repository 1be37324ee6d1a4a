"""Kernels in cells of a notebook, over stdio."""

from __future__ import annotations

import pytest
from lsprotocol import types as lsp

from tests.server.conftest import Session, apply_edits

NOTEBOOK = "file:///tmp/work.ipynb"
IMPORTS = "%matplotlib inline\nimport nki\nimport nki.language as nl"
KERNEL = "@nki.jit\ndef fast(x):\n    tile = nl.load(x)\n    return tile"
SHOWN = "!ls\nfast(1)  # DEFECT"


def cell(number: int) -> str:
    return f"vscode-notebook-cell:/tmp/work.ipynb#{number}"


class Cells:
    """A notebook as a client has it."""

    def __init__(self, session: Session, *texts: str) -> None:
        self.session = session
        self.order = [cell(n) for n in range(len(texts))]
        self.version = 1
        for uri, text in zip(self.order, texts, strict=True):
            session.texts[uri], session.versions[uri] = text, 1
        session.client.notebook_document_did_open(
            lsp.DidOpenNotebookDocumentParams(
                lsp.NotebookDocument(NOTEBOOK, "jupyter-notebook", 1, self._cells(self.order)),
                [self._item(uri) for uri in self.order],
            )
        )

    def _item(self, uri: str) -> lsp.TextDocumentItem:
        session = self.session
        return lsp.TextDocumentItem(uri, "python", session.versions[uri], session.texts[uri])

    @staticmethod
    def _cells(uris: list[str]) -> list[lsp.NotebookCell]:
        return [lsp.NotebookCell(lsp.NotebookCellKind.Code, uri) for uri in uris]

    def _change(self, change: lsp.NotebookDocumentCellChanges) -> None:
        self.version += 1
        self.session.client.notebook_document_did_change(
            lsp.DidChangeNotebookDocumentParams(
                lsp.VersionedNotebookDocumentIdentifier(self.version, NOTEBOOK),
                lsp.NotebookDocumentChangeEvent(cells=change),
            )
        )

    def edit(self, uri: str, text: str) -> None:
        self.session.texts[uri] = text
        self.session.versions[uri] += 1
        document = lsp.VersionedTextDocumentIdentifier(self.session.versions[uri], uri)
        whole = lsp.TextDocumentContentChangeWholeDocument(text)
        content = lsp.NotebookDocumentCellContentChanges(document, [whole])
        self._change(lsp.NotebookDocumentCellChanges(text_content=[content]))

    def splice(self, start: int, count: int, *uris: str, closed: tuple[str, ...] = ()) -> None:
        self.order[start : start + count] = uris
        array = lsp.NotebookCellArrayChange(start, count, self._cells(list(uris)))
        structure = lsp.NotebookDocumentCellChangeStructure(
            array,
            [self._item(u) for u in uris],
            [lsp.TextDocumentIdentifier(u) for u in closed],
        )
        self._change(lsp.NotebookDocumentCellChanges(structure=structure))


def lines(report: lsp.RelatedFullDocumentDiagnosticReport) -> list[int]:
    return [d.range.start.line for d in report.items]


async def test_each_cell_gets_its_own(session: Session):
    await session.start(early=False)
    assert session.initialized.capabilities.notebook_document_sync is not None
    cells = Cells(session, IMPORTS, KERNEL, SHOWN)
    assert [lines(await session.diagnostics(u)) for u in cells.order] == [[], [], [1]]
    assert [[h.position.line for h in await session.hints(u)] for u in cells.order] == [[], [2], []]
    lenses = [await session.lenses(u) for u in cells.order]
    assert [{x.range.start.line for x in found} for found in lenses] == [set(), {0}, set()]
    assert "nl.load" in (await session.hover(cell(1), "nl.load", 4) or "")
    titles = [a.title for a in await session.actions(cell(1), 2)]
    assert "Optimize kernel fast" in titles
    assert "Repair it" in [a.title for a in await session.actions(cell(2), 1)]
    # What is written above moves everything in the notebook, and nothing in a cell.
    cells.edit(cell(0), IMPORTS + "\n\nx = 1\n")
    assert [lines(await session.diagnostics(u)) for u in cells.order] == [[], [], [1]]
    cells.splice(2, 1, closed=(cell(2),))
    cells.splice(0, 0, cell(2))
    assert [lines(await session.diagnostics(u)) for u in cells.order] == [[1], [], []]
    cells.splice(0, 1, closed=(cell(2),))
    assert [lines(await session.diagnostics(u)) for u in cells.order] == [[], []]


async def test_a_fix_edits_its_cell(session: Session):
    await session.start(early=False)
    Cells(session, IMPORTS, SHOWN + " DEFECT", KERNEL)
    await session.diagnostics(cell(0))
    action = next(a for a in await session.actions(cell(1), 1) if a.title == "Repair it")
    resolved = await session.client.code_action_resolve_async(action)
    (change,) = resolved.edit.document_changes
    assert (change.text_document.uri, change.text_document.version) == (cell(1), 1)
    assert apply_edits(session.texts[cell(1)], list(change.edits)) == (
        "!ls\nfast(1)  # repaired repaired"
    )


@pytest.mark.parametrize("texts", [(IMPORTS, KERNEL), (IMPORTS, KERNEL, SHOWN)])
async def test_a_run_changes_its_cell(session: Session, texts):
    session.answers = ["Apply"]
    await session.start()
    cells = Cells(session, *texts)
    await session.command("accelopt.optimizeKernel", cell(1), "fast")
    await session.until(lambda: session.edits)
    assert session.texts[cell(1)] == KERNEL.replace("(x)\n    return", "(x[0:128])\n    return")
    assert session.texts[cell(0)] == IMPORTS
    assert cells.order == [cell(n) for n in range(len(texts))]


async def test_a_failure_names_the_cell(session: Session):
    await session.start()
    Cells(session, IMPORTS, "@nki.jit\ndef wrong(x):\n    raise ValueError")
    await session.command("accelopt.optimizeKernel", cell(1), "wrong")
    await session.message("work.ipynb, cell 2, line 3: ValueError")
    await session.until(lambda: session.client.diagnostic_refresh_count)
    assert lines(await session.diagnostics(cell(1))) == [2]


async def test_pushed_diagnostics_go_to_the_cells(session: Session):
    await session.start(pull=False)
    Cells(session, IMPORTS, SHOWN, KERNEL)
    await session.until(lambda: session.client.diagnostics.get(cell(1)))
    assert [d.range.start.line for d in session.client.diagnostics[cell(1)]] == [1]
    assert NOTEBOOK not in session.client.diagnostics
    session.client.notebook_document_did_close(
        lsp.DidCloseNotebookDocumentParams(
            lsp.NotebookDocumentIdentifier(NOTEBOOK), [lsp.TextDocumentIdentifier(cell(1))]
        )
    )
    await session.until(lambda: not session.client.diagnostics.get(cell(1)))


async def test_cells_are_pushed_to_clients_that_pull_files_alone(session: Session):
    await session.start()
    Cells(session, IMPORTS, SHOWN, KERNEL)
    await session.until(lambda: session.client.diagnostics.get(cell(1)))
    assert lines(await session.diagnostics(cell(1))) == [1]
    # From the first pull on nothing is shown twice.
    await session.until(lambda: not session.client.diagnostics[cell(1)])


@pytest.mark.parametrize("how", ["deleted", "turned into text"])
async def test_what_was_pushed_goes_with_its_cell(session: Session, how):
    await session.start(pull=False)
    cells = Cells(session, IMPORTS, SHOWN, KERNEL)
    await session.until(lambda: session.client.diagnostics.get(cell(1)))
    if how == "deleted":
        cells.splice(1, 1, closed=(cell(1),))
    else:
        text = lsp.NotebookCell(lsp.NotebookCellKind.Markup, cell(1))
        cells._change(lsp.NotebookDocumentCellChanges(data=[text]))
    await session.until(lambda: not session.client.diagnostics[cell(1)])


async def test_a_kernel_in_a_notebook_is_analysed_and_run(real: Session):
    text = (
        "# accelopt: a=f32[128,512]\n@nki.jit\ndef double(a):\n"
        "    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, nl.add(nl.load(a), nl.load(a)))\n    return out\n"
    )
    await real.start(early=False)
    cells = Cells(real, "%%bash\nls", "import neuronxcc.nki as nki", "f(", text, text[:0])
    cells.edit(cell(4), "import neuronxcc.nki.language as nl")
    await real.diagnostics(cell(0))
    assert lines(await real.diagnostics(cell(2))) == [0]
    assert lines(await real.diagnostics(cell(1))) == []
    symbols = await real.client.text_document_document_symbol_async(
        lsp.DocumentSymbolParams(lsp.TextDocumentIdentifier(cell(3)))
    )
    assert [s.name for s in symbols] == ["double"]
    assert symbols[0].range.start.line == 1
    tokens = await real.client.text_document_semantic_tokens_full_async(
        lsp.SemanticTokensParams(lsp.TextDocumentIdentifier(cell(3)))
    )
    assert tokens.data
    places = [sum(tokens.data[: at + 1 : 5]) for at in range(0, len(tokens.data), 5)]
    assert {4} < set(places) <= {2, 3, 4, 5}
    assert tokens.result_id is None
    cells.edit(cell(2), "f = 1")
    await real.command("accelopt.profileKernel", cell(3), "double")
    assert "outputs" in await real.message("double on trn1", 120)
