"""Hover on API names, loops and on-chip buffers, from the last finished analysis."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.dialects import LANGUAGE_CONSTANTS, Api, Dialect, Role
from accelopt_lsp.server.analyses import Analysed
from accelopt_lsp.server.documents import Document
from accelopt_lsp.server.snapshot import KernelView
from accelopt_lsp.server.strategies import situation
from accelopt_lsp.server.wording import allocation_page, api_page, line_facts, loop_page

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def register(app: App) -> None:
    @app.server.on(lsp.TEXT_DOCUMENT_HOVER)
    async def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        document = app.documents.get(params.text_document.uri)
        if document is None:
            return None
        analysed = await app.shown_analysis(document, refreshes=True)
        if analysed is None:
            return None
        place = document.index.span_position(params.position)
        text = document.index.line(params.position.line)
        found = name_at(text, place.column)
        if found is None:
            return None
        name, start, end = found
        earlier = document.earlier_line(place.line, analysed.generation)
        page = await _page(app, document, analysed, name, place.line, earlier)
        if page is None:
            return None
        offset = document.index.offset(lsp.Position(params.position.line, 0))
        return lsp.Hover(
            lsp.MarkupContent(lsp.MarkupKind.Markdown, page),
            document.index.range(offset + start, offset + end),
        )


def name_at(text: str, column: int) -> tuple[str, int, int] | None:
    """The dotted name at a column (from 1) of a line, up to the part under the cursor.

    Returns:
        The name, and its first and last offset in the line; None if there is no name.
    """
    for match in _DOTTED.finditer(text):
        if match.start() <= column - 1 <= match.end():
            end = match.end()
            stop = text.find(".", max(column - 1, match.start()), match.end())
            if stop >= 0:
                end = stop
            return text[match.start() : end], match.start(), end
    return None


def canonical(name: str, aliases: Mapping[str, str]) -> str | None:
    """Canonical form (``nl.load``) of a name as the file writes it; None if it is no import."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        base = aliases.get(".".join(parts[:count]))
        if base is not None:
            full = ".".join((base, *parts[count:]))
            full = full.removeprefix("neuronxcc.")
            for module, short in (("nki.language", "nl"), ("nki.isa", "nisa")):
                if full == module or full.startswith(f"{module}."):
                    return short + full[len(module) :]
            return full
    return None


async def _page(
    app: App, document: Document, analysed: Analysed, name: str, line: int, earlier: int | None
) -> str | None:
    snapshot = analysed.snapshot
    kernel = snapshot.kernel_at(earlier) if earlier is not None else None
    full = canonical(name, snapshot.aliases)
    if full is not None:
        constant = full.removeprefix("nl.")
        if full.startswith("nl.") and constant in LANGUAGE_CONSTANTS:
            return f"`{full}` = {LANGUAGE_CONSTANTS[constant]}"
        api = find_api(full)
        if api is None:
            return None
        if kernel is not None:
            kernel = app.with_profile(document, kernel)
        page = await _api_page(app, kernel, api, snapshot.dialect or Dialect.CURRENT, earlier)
        loop = _loop_page(document, kernel, line, earlier) if api.role is Role.LOOP else None
        return f"{loop}\n\n---\n\n{page}" if loop else page
    if kernel is None or kernel.workload is None:
        return None
    head = document.index.line(line - 1).split(":", 1)[0]
    if name == "for" or (name in head and head.lstrip().startswith("for ")):
        return _loop_page(document, kernel, line, earlier)
    for allocation in kernel.workload.allocations:
        if allocation.name == name:
            return allocation_page(allocation, kernel.workload, kernel.target)
    return None


async def _api_page(
    app: App, kernel: KernelView | None, api: Api, dialect: Dialect, line: int | None
) -> str:
    if kernel is None:
        target = "trn1" if dialect is Dialect.LEGACY else "trn2"
        return api_page(api, dialect, target, None, None)
    workload = kernel.workload
    work = next((w for w in workload.lines if w.line == line), None) if workload else None
    learned = await app.strategies.of(situation(kernel, line, api.instruction))
    profile = kernel.profile
    texts = [strategy.text for strategy in learned]
    facts = line_facts(profile, line) if profile is not None and line is not None else ()
    return api_page(api, kernel.dialect, kernel.target, work, workload, texts, facts)


def _loop_page(
    document: Document, kernel: KernelView | None, line: int, earlier: int | None
) -> str | None:
    workload = kernel.workload if kernel is not None else None
    loop = next((x for x in workload.loops if x.line == earlier), None) if workload else None
    if loop is None or workload is None or earlier is None:
        return None
    return loop_page(loop, earlier + _body_lines(document, line), workload)


def _body_lines(document: Document, line: int) -> int:
    """Lines of the block that the line opens, by indentation."""
    index = document.index
    first = index.line(line - 1)
    indent = len(first) - len(first.lstrip())
    count = 0
    for number in range(line, index.line_count):
        text = index.line(number)
        if text.strip() and len(text) - len(text.lstrip()) <= indent:
            break
        count += 1
    return count
