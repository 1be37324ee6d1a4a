"""Notebooks: the client speaks of cells, everything else of one document for all of them.

Requests about a cell are turned into requests about the notebook's document, and what is answered
is turned back; see :mod:`cells` for the text of that document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from attrs import define, evolve, field
from lsprotocol import types as lsp

from accelopt_lsp.server.cells import Cell, Layout, spliced, split_lines
from accelopt_lsp.server.documents import Document, Documents
from accelopt_lsp.server.positions import units

SYNC = lsp.NotebookDocumentSyncOptions(
    notebook_selector=[
        lsp.NotebookDocumentFilterWithCells(cells=[lsp.NotebookCellLanguage(language="python")])
    ],
    save=True,
)


@define(slots=True, eq=False)
class Notebook:
    """One open notebook.

    Attributes:
        uri: of the notebook and of its document.
        order: URIs of its cells, as the client counts them: perhaps also those without code.
        code: URIs of those with code.
        cells: texts of Python cells by the URI of the cell.
        layout: how the cells make up the document.
        marked: URIs of the cells that diagnostics were pushed for.
        pulled: the client has asked for diagnostics of a cell.
    """

    uri: str
    order: list[str] = field(factory=list)
    code: set[str] = field(factory=set)
    cells: dict[str, Document] = field(factory=dict)
    layout: Layout = field(factory=Layout)
    marked: set[str] = field(factory=set)
    pulled: bool = False

    def arrange(self) -> str:
        """Lay the cells out anew; gives the document's text."""
        shown = [uri for uri in dict.fromkeys(self.order) if uri in self.code & self.cells.keys()]
        self.layout = Layout.of(Cell(uri, self.cells[uri].text) for uri in shown)
        return self.layout.text

    def note(self, cells: Iterable[lsp.NotebookCell]) -> None:
        """Take over of what kind cells are."""
        for cell in cells:
            if cell.kind is lsp.NotebookCellKind.Code:
                self.code.add(cell.document)
            else:
                self.code.discard(cell.document)


class Notebooks:
    """All open notebooks, whose documents are among the others."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._open: dict[str, Notebook] = {}
        self._of_cell: dict[str, Notebook] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def of_cell(self, uri: object) -> Notebook | None:
        """The notebook of a cell that is part of the notebook's document."""
        notebook = self._of_cell.get(uri) if isinstance(uri, str) else None
        return notebook if notebook is not None and uri in notebook.layout.names else None

    def get(self, uri: str) -> Notebook | None:
        return self._open.get(uri)

    # -- synchronization --------------------------------------------------------------

    def open(self, params: lsp.DidOpenNotebookDocumentParams) -> Document:
        document = params.notebook_document
        notebook = Notebook(document.uri, [c.document for c in document.cells])
        notebook.note(document.cells)
        self._open[notebook.uri] = notebook
        self._take(notebook, params.cell_text_documents)
        item = lsp.TextDocumentItem(notebook.uri, "python", document.version, notebook.arrange())
        return self._documents.open(item)

    def _take(self, notebook: Notebook, items: Iterable[lsp.TextDocumentItem]) -> None:
        for item in items:
            if item.language_id == "python":
                notebook.cells[item.uri] = self._documents.detached(item)
                self._of_cell[item.uri] = notebook

    def change(self, params: lsp.DidChangeNotebookDocumentParams) -> Document | None:
        notebook = self._open.get(params.notebook_document.uri)
        cells = params.change.cells
        if notebook is None or cells is None:
            return None
        if cells.structure is not None:
            array = cells.structure.array
            added = array.cells or ()
            notebook.note(added)
            names = [c.document for c in added]
            notebook.order = spliced(notebook.order, array.start, array.delete_count, names)
            for closed in cells.structure.did_close or ():
                if closed.uri not in notebook.order:
                    notebook.cells.pop(closed.uri, None)
                    self._of_cell.pop(closed.uri, None)
            self._take(notebook, cells.structure.did_open or ())
        notebook.note(cells.data or ())
        for content in cells.text_content or ():
            cell = notebook.cells.get(content.document.uri)
            if cell is not None:
                cell.apply(content.changes, content.document.version)
        whole = self._documents.get(notebook.uri)
        if whole is not None:
            change = lsp.TextDocumentContentChangeWholeDocument(notebook.arrange())
            whole.apply([change], params.notebook_document.version)
        return whole

    def forget(self, notebook: Notebook) -> None:
        """It was closed; messages about its cells go nowhere from now on."""
        if self._open.get(notebook.uri) is notebook:
            del self._open[notebook.uri]
        self._of_cell = {c: n for c, n in self._of_cell.items() if n is not notebook}

    # -- from cells to the document ---------------------------------------------------

    def inwards(self, params: Any, cell: str) -> Any:
        """Parameters about a cell as parameters about its notebook's document."""
        notebook = self._of_cell[cell]
        layout = notebook.layout

        def line(number: int) -> int:
            return layout.line(cell, number)

        moved = _moved(params, line)
        moved.text_document = evolve(moved.text_document, uri=notebook.uri)
        if isinstance(moved, lsp.DocumentDiagnosticParams):
            # An earlier result says nothing of how the document is cut into cells.
            moved.previous_result_id = None
        return moved

    # -- from the document to cells ---------------------------------------------------

    def outwards(self, result: Any, cell: str | None) -> Any:
        """An answer about a notebook's document as one about a cell, if it was asked about one."""
        notebook = self._of_cell.get(cell) if cell is not None else None
        if notebook is None or cell is None:
            return _everywhere(result, self)
        layout = notebook.layout
        if cell not in layout.names:
            return None
        if isinstance(result, lsp.SemanticTokens):
            return lsp.SemanticTokens(_tokens(result.data, layout, cell))

        def line(number: int) -> int:
            # What reaches beyond the cell ends with it.
            start = layout.starts[layout.number(cell)]
            return min(max(0, number - start), layout.counts[layout.number(cell)] - 1)

        def inside(item: Any) -> bool:
            anchor = _anchor(item)
            return anchor is None or layout.holds(cell, anchor)

        if isinstance(result, lsp.RelatedFullDocumentDiagnosticReport):
            items = [i for i in result.items if inside(i)]
            result = lsp.RelatedFullDocumentDiagnosticReport(items)
        elif isinstance(result, list | tuple):
            result = [item for item in result if inside(item)]
        return _moved(_everywhere(result, self), line)

    def edit(self, edit: lsp.WorkspaceEdit) -> lsp.WorkspaceEdit:
        """An edit with those of notebooks' documents given to their cells.

        Raises:
            ValueError: an edit reaches over several cells.
        """
        if edit.changes is not None:
            changes: dict[str, Sequence[lsp.TextEdit]] = {}
            for uri, edits in edit.changes.items():
                notebook = self._open.get(uri)
                changes |= {uri: edits} if notebook is None else _by_cell(notebook, edits)
            return evolve(edit, changes=changes)
        if edit.document_changes is None:
            return edit
        found: list[Any] = []
        for change in edit.document_changes:
            uri = change.text_document.uri if isinstance(change, lsp.TextDocumentEdit) else ""
            notebook = self._open.get(uri)
            if notebook is None or not isinstance(change, lsp.TextDocumentEdit):
                found.append(change)
                continue
            for cell, edits in _by_cell(notebook, change.edits).items():
                version = notebook.cells[cell].version
                identifier = lsp.OptionalVersionedTextDocumentIdentifier(cell, version)
                found.append(lsp.TextDocumentEdit(identifier, list(edits)))
        return evolve(edit, document_changes=found)

    def location(self, location: lsp.Location) -> lsp.Location:
        notebook = self._open.get(location.uri)
        if notebook is None or not notebook.layout.names:
            return location
        number = notebook.layout.place(location.range.start.line)[0]
        first = notebook.layout.starts[number]
        last = notebook.layout.counts[number] - 1

        def line(value: int) -> int:
            return min(max(0, value - first), last)

        return lsp.Location(notebook.layout.names[number], _moved(location.range, line))

    def published(self, params: lsp.PublishDiagnosticsParams) -> list[lsp.PublishDiagnosticsParams]:
        """Diagnostics of a document as those of its cells; none for what is no part of it now."""
        notebook = self._open.get(params.uri)
        if notebook is None:
            return [params]
        cells = notebook.layout.names
        gone = sorted(notebook.marked.difference(cells))
        notebook.marked = set(cells)
        return [
            lsp.PublishDiagnosticsParams(cell, self.outwards(list(params.diagnostics), cell))
            for cell in cells
        ] + [lsp.PublishDiagnosticsParams(cell, []) for cell in gone]

    def described(self, uri: str, line: int) -> str | None:
        """``cell 3, line 2`` for a line (from 1) of a notebook's document; None if it is none."""
        notebook = self._open.get(uri)
        if notebook is None or not notebook.layout.names:
            return None
        number, inside = notebook.layout.place(line - 1)
        return f"cell {number + 1}, line {inside + 1}"


def _moved(value: Any, line: Any) -> Any:
    """The same with all lines replaced; data that a message only carries stays as it is."""
    if isinstance(value, lsp.Position):
        return lsp.Position(line(value.line), value.character)
    if isinstance(value, lsp.FoldingRange):
        return evolve(value, start_line=line(value.start_line), end_line=line(value.end_line))
    if isinstance(value, lsp.Location | lsp.LocationLink | lsp.WorkspaceEdit | lsp.Command):
        return value
    if isinstance(value, list | tuple):
        return [_moved(item, line) for item in value]
    if attrs.has(type(value)):
        return _evolved(value, lambda item: _moved(item, line))
    return value


def _everywhere(value: Any, notebooks: Notebooks) -> Any:
    """The same with locations and edits in notebooks' documents given to their cells."""
    if not notebooks:
        return value
    if isinstance(value, lsp.Location):
        return notebooks.location(value)
    if isinstance(value, lsp.WorkspaceEdit):
        return notebooks.edit(value)
    if isinstance(value, list | tuple):
        return [_everywhere(item, notebooks) for item in value]
    if attrs.has(type(value)) and not isinstance(value, lsp.Position | lsp.Range | lsp.Command):
        return _evolved(value, lambda item: _everywhere(item, notebooks))
    return value


def _evolved(value: Any, change: Any) -> Any:
    changed = {}
    for attribute in attrs.fields(type(value)):
        before = getattr(value, attribute.name)
        if isinstance(before, str | int | float | bool | dict | None):
            continue
        changed[attribute.name] = change(before)
    return evolve(value, **changed) if changed else value


def _anchor(item: Any) -> int | None:
    """The line that decides to which cell something belongs."""
    if isinstance(item, lsp.FoldingRange):
        return item.start_line
    position = getattr(item, "position", None)
    range_ = getattr(item, "range", None)
    if isinstance(position, lsp.Position):
        return position.line
    return range_.start.line if isinstance(range_, lsp.Range) else None


def _tokens(data: Sequence[int], layout: Layout, cell: str) -> list[int]:
    """Semantic tokens of one cell; each is five numbers, the line relative to the one before."""
    start = layout.starts[layout.number(cell)]
    found: list[int] = []
    line = column = 0
    last_line, last_column = start, 0
    for at in range(0, len(data), 5):
        down, right = data[at], data[at + 1]
        line, column = line + down, right if down else column + right
        if layout.holds(cell, line):
            same = line == last_line
            found += [line - last_line, column - last_column if same else column]
            found += data[at + 2 : at + 5]
            last_line, last_column = line, column
    return found


def _continues(layout: Layout, line: int, text: str) -> bool:
    """Whether what is inserted at a line belongs to the cell that ends before it."""
    if line == 0 or (line in layout.starts and not text[:1].isspace()):
        return False
    return line in layout.starts or line == layout.text.count("\n")


def _by_cell(notebook: Notebook, edits: Iterable[Any]) -> dict[str, Sequence[Any]]:
    found: dict[str, list[Any]] = {}
    layout = notebook.layout
    for edit in edits:
        start, end = edit.range.start, edit.range.end
        if start == end and start.character == 0 and _continues(layout, start.line, edit.new_text):
            cell = layout.names[layout.place(start.line - 1)[0]]
            lines = split_lines(notebook.cells[cell].text)
            length = units(lines[-1], notebook.cells[cell].encoding)
            end = lsp.Position(len(lines) - 1, length)
            text = "\n" + edit.new_text.removesuffix("\n")
            found.setdefault(cell, []).append(
                evolve(edit, range=lsp.Range(end, end), new_text=text)
            )
            continue
        number, first = layout.place(start.line)
        cell = layout.names[number]
        lines = split_lines(notebook.cells[cell].text)
        text = edit.new_text
        last = end.line - layout.starts[number]
        if last > len(lines) - 1:
            if last > len(lines) or end.character > 0:
                raise ValueError("the edit reaches over several cells")
            # The end of the last line is the document's, not the cell's.
            last = len(lines) - 1
            end = lsp.Position(0, units(lines[last], notebook.cells[cell].encoding))
            text = text.removesuffix("\n").removesuffix("\r")
        place = lsp.Range(lsp.Position(first, start.character), lsp.Position(last, end.character))
        found.setdefault(cell, []).append(evolve(edit, range=place, new_text=text))
    return {cell: tuple(edits) for cell, edits in found.items()}
