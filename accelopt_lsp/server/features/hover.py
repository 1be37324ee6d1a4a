"""Hover on NKI's names, keywords of their calls, loops and tensors."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.nki.diagnostics import Position
from accelopt_lsp.nki.dialects import Role
from accelopt_lsp.nki.reference.names import Name
from accelopt_lsp.nki.workload import LineWork, Workload
from accelopt_lsp.nki.writing.scan import Where, dotted_at, open_calls, where
from accelopt_lsp.server.analyses import Analysed
from accelopt_lsp.server.documents import Document
from accelopt_lsp.server.hover_pages import (
    allocation_page,
    cost_here,
    loop_page,
    name_page,
    parameter_page,
    tensor_page,
    view_page,
)
from accelopt_lsp.server.markup import markup
from accelopt_lsp.server.places import place_at
from accelopt_lsp.server.snapshot import KernelView, Learned
from accelopt_lsp.server.strategies import situation
from accelopt_lsp.server.wording import line_facts

if TYPE_CHECKING:
    from accelopt_lsp.nki.writing.place import Place
    from accelopt_lsp.server.app import App

NAME_SECONDS = 0.3
"""How long a hover on a name waits for the first analysis, without which only the costs lack."""


def register(app: App) -> None:
    @app.server.on(lsp.TEXT_DOCUMENT_HOVER)
    async def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        document = app.documents.get(params.text_document.uri)
        if document is None or not document.concerns_nki:
            return None
        place, index = place_at(app, document, params.position), document.index
        found = dotted_at(place.code, place.offset)
        if found is None or where(place.text, found[1])[0] is not Where.CODE:
            return None
        written, start, end = found
        at = index.span_position(index.position(start))
        line = at.line
        name = place.name_of(written, start)
        if name is not None:
            page: str | None = await _of_name(app, document, place, name, at)
        else:
            page = _of_keyword(place, written, start, end)
            if page is None and "." not in written and place.code[start - 1 : start] != ".":
                page = await _of_variable(app, document, written, line)
        if page is None:
            return None
        return lsp.Hover(markup(page, app.client.hover_format), index.range(start, end))


class _Here:
    """A line of a document in its last analysis."""

    def __init__(self, app: App, document: Document, analysed: Analysed | None, line: int) -> None:
        self.snapshot = None if analysed is None else analysed.snapshot
        self.line = None if analysed is None else document.earlier_line(line, analysed.generation)
        self.kernel: KernelView | None = None
        if self.snapshot is not None and self.line is not None:
            found = self.snapshot.kernel_at(self.line)
            self.kernel = found and app.with_profile(document, found)

    def loop(self) -> str | None:
        """A page on the loop whose head is on this line."""
        if self.kernel is None or self.kernel.workload is None:
            return None
        found = (x for x in self.kernel.workload.loops if x.line == self.line)
        loop = next(found, None)
        return None if loop is None else loop_page(loop, self.kernel)


async def _of_name(
    app: App, document: Document, place: Place, name: Name, at: Position
) -> str | None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(app.shown_analysis(document, refreshes=True), NAME_SECONDS)
    here = _Here(app, document, app.analyses.latest(document.uri), at.line)
    kernel, cost, facts = here.kernel, "", []
    work = None
    if kernel is not None and kernel.workload is not None and name.api is not None:
        work = _call_at(kernel.workload, here.line, at.column)
    if kernel is not None and work is not None:
        cost = cost_here(work, kernel)
    if kernel is not None and kernel.profile is not None and here.line is not None:
        facts = line_facts(kernel.profile, here.line) if name.api is not None else []
    learned: tuple[Learned, ...] = ()
    if kernel is not None and here.line is not None and name.api is not None:
        about = situation(kernel, here.line, name.api.instruction)
        learned = await app.strategies.of(about)
    page = name_page(
        name,
        place.dialect,
        kernel.target if kernel is not None else place.hardware,
        place.version,
        here=cost,
        simulated=facts,
        learned=learned,
    )
    loop = here.loop() if name.api is not None and name.api.role is Role.LOOP else None
    return f"{loop}\n\n---\n\n{page}" if loop else page


def _call_at(workload: Workload, line: int | None, column: int) -> LineWork | None:
    """What the call that begins at a place issues."""
    several = [call for call in workload.calls if call.line == line]
    if several:
        return next((call for call in several if call.column == column), None)
    # Where nobody knows the column, the line has one call.
    only = (work for work in workload.lines if work.line == line)
    return next((work for work in only if work.column in (column, None)), None)


def _of_keyword(place: Place, word: str, start: int, end: int) -> str | None:
    """The parameter that a keyword of a call gives."""
    if place.code[end:].lstrip()[:1] != "=" or place.code[end:].lstrip()[:2] == "==":
        return None
    calls = open_calls(place.code, start)
    name = place.named(calls[-1]) if calls else None
    if name is None or place.code[calls[-1].arguments[-1].start : start].strip():
        return None
    return parameter_page(name, word, place.dialect)


async def _of_variable(app: App, document: Document, name: str, line: int) -> str | None:
    """A loop by its variable or ``for``, or a tensor."""
    here = _Here(app, document, await app.shown_analysis(document, refreshes=True), line)
    if here.snapshot is None or here.line is None:
        return None
    head = document.index.line(line - 1).split(":", 1)[0].lstrip()
    if here.kernel is not None and head.startswith("for "):
        variables = head.removeprefix("for ").partition(" in ")[0]
        if name == "for" or name in variables.replace(",", " ").split():
            return here.loop()
    used = any(u.line == here.line and u.name == name for u in here.snapshot.buffers)
    kernels = here.snapshot.kernels if here.kernel is None and used else (here.kernel,)
    for kernel in kernels:
        page = None if kernel is None else _of_tensor(kernel, name, here.line)
        if page is not None:
            return page
    return None


def _of_tensor(kernel: KernelView, name: str, line: int) -> str | None:
    """The tensor that a name of a kernel stands for at a line, or the part of one."""
    work = kernel.workload
    views = [v for v in kernel.views if v.name == name and v.line <= line]
    view = max(views, key=lambda v: v.line, default=None)
    if view is not None and not any(
        a.name == name and view.line < a.line <= line
        for a in (work.allocations if work is not None else ())
    ):
        # What it was before this line: two names may be given to each other's tensors.
        whole = _of_tensor(kernel, view.tensor, view.line - 1) if view.tensor != name else None
        return view_page(view, whole)
    found = [a for a in work.allocations if a.name == name] if work is not None else []
    if found:
        before = [a for a in found if a.line <= line]
        return allocation_page(max(before or found, key=lambda a: a.line), kernel)
    tensors = work.tensors if work is not None else ()
    tensor = next((t for t in tensors if t.name == name), None)
    return None if tensor is None else tensor_page(tensor, kernel)
