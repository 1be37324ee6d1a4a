"""Document symbols: kernels with their loops and buffers, and the other definitions of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.nki.dtypes import find_dtype
from accelopt_lsp.nki.outline import Entry, EntryKind
from accelopt_lsp.nki.workload import AllocationWork, Workload
from accelopt_lsp.server.analyses import Analysed
from accelopt_lsp.server.documents import Document
from accelopt_lsp.server.outlines import outline_of
from accelopt_lsp.server.snapshot import KernelView
from accelopt_lsp.server.wording import lens_title

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

_KINDS = {
    EntryKind.KERNEL: lsp.SymbolKind.Function,
    EntryKind.FUNCTION: lsp.SymbolKind.Function,
    EntryKind.METHOD: lsp.SymbolKind.Method,
    EntryKind.CLASS: lsp.SymbolKind.Class,
    EntryKind.LOOP: lsp.SymbolKind.Operator,
}


def register(app: App) -> None:
    @app.server.on(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def symbols(
        params: lsp.DocumentSymbolParams,
    ) -> list[lsp.DocumentSymbol] | list[lsp.SymbolInformation] | None:
        document = app.documents.get(params.text_document.uri)
        analysed = await outline_of(app, document) if document is not None else None
        if document is None or analysed is None or analysed.snapshot.outline is None:
            return None
        latest = app.analyses.latest(document.uri)
        kernels = latest.snapshot.kernels if latest is not None else ()
        tree = _Tree(app, document, analysed, latest, kernels)
        found = [s for entry in analysed.snapshot.outline.entries for s in tree.symbol(entry, None)]
        if app.client.hierarchical_symbols:
            return found
        return list(_flat(found, document.uri, None))


class _Tree:
    """Turns entries into symbols at the lines where they are now."""

    def __init__(
        self,
        app: App,
        document: Document,
        outlined: Analysed,
        latest: Analysed | None,
        kernels: Iterable[KernelView],
    ) -> None:
        self._app = app
        self._document = document
        self._generation = outlined.generation
        # Figures are of the last whole analysis, whose lines may differ from the outline's.
        self._figures: dict[int, KernelView] = {}
        self._earlier = latest.generation if latest is not None else 0
        for kernel in kernels:
            line = document.current_line(kernel.line, self._earlier)
            if line is not None:
                self._figures[line] = kernel

    def symbol(self, entry: Entry, kernel: KernelView | None) -> Iterator[lsp.DocumentSymbol]:
        document = self._document
        first = document.current_line(entry.span.start.line, self._generation)
        last = document.current_line(entry.span.end.line, self._generation)
        head = document.current_line(entry.name_span.start.line, self._generation)
        plain_loop = entry.kind is EntryKind.LOOP and kernel is None
        if first is None or last is None or head is None or plain_loop:
            for child in entry.children:
                yield from self.symbol(child, kernel)
            return
        if entry.kind is EntryKind.KERNEL:
            kernel = self._figures.get(head)
        children = [s for child in entry.children for s in self.symbol(child, kernel)]
        if kernel is not None and kernel.workload is not None:
            buffers = self._buffers(kernel.workload, first, last, children)
            children = sorted([*children, *buffers], key=lambda s: s.range.start.line)
        whole = document.index.line_range(first)
        end = document.index.end_of_line(last)
        name = document.index.line_range(head)
        yield lsp.DocumentSymbol(
            name=entry.name,
            kind=_KINDS[entry.kind],
            detail=self._detail(entry, head, kernel),
            range=lsp.Range(whole.start, end),
            selection_range=name,
            children=children or None,
        )

    def _detail(self, entry: Entry, line: int, kernel: KernelView | None) -> str | None:
        if kernel is None:
            return None
        if entry.kind is EntryKind.KERNEL:
            return lens_title(self._app.with_profile(self._document, kernel))
        if entry.kind is not EntryKind.LOOP or kernel.workload is None:
            return None
        earlier = self._document.earlier_line(line, self._earlier)
        trips = [loop.trips for loop in kernel.workload.loops if loop.line == earlier]
        known = [t for t in trips if t is not None]
        return f"{known[0]:,} trips" if known else None

    def _buffers(
        self, workload: Workload, first: int, last: int, inside: list[lsp.DocumentSymbol]
    ) -> Iterator[lsp.DocumentSymbol]:
        """Named buffers of these lines that are in none of the inner symbols."""
        seen: set[tuple[str, int]] = set()
        taken = [range(s.range.start.line + 1, s.range.end.line + 2) for s in inside]
        for allocation in workload.allocations:
            line = self._document.current_line(allocation.line, self._earlier)
            if line is None or not allocation.name or not first <= line <= last:
                continue
            if (allocation.name, line) in seen or any(line in lines for lines in taken):
                continue
            seen.add((allocation.name, line))
            place = self._document.index.line_range(line)
            yield lsp.DocumentSymbol(
                name=allocation.name,
                kind=lsp.SymbolKind.Variable,
                detail=_shape(allocation),
                range=place,
                selection_range=place,
            )


def _shape(allocation: AllocationWork) -> str:
    dtype = find_dtype(allocation.dtype)
    short = dtype.short if dtype is not None else allocation.dtype
    return f"{short}{list(allocation.shape)} {allocation.buffer.upper()}"


def _flat(
    symbols: Iterable[lsp.DocumentSymbol], uri: str, container: str | None
) -> Iterator[lsp.SymbolInformation]:
    for symbol in symbols:
        yield lsp.SymbolInformation(
            name=symbol.name,
            kind=symbol.kind,
            location=lsp.Location(uri, symbol.range),
            container_name=container,
        )
        yield from _flat(symbol.children or (), uri, symbol.name)
