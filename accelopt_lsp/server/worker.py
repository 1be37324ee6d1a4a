"""The warm child that analyses texts: ``python -m accelopt_lsp.server.worker``.

One request at a time, each answered by ``("result", value)`` or ``("error", text)``. It runs
nothing of the user's. The server restarts it when it dies or takes too long.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelopt_lsp.nki.diagnostics import Diagnostic
from accelopt_lsp.server import worker_edits
from accelopt_lsp.server.channel import Pipe
from accelopt_lsp.server.snapshot import (
    HintView,
    KernelView,
    Learned,
    Request,
    Situation,
    Snapshot,
)

if TYPE_CHECKING:
    from accelopt_lsp.analysis import KernelAnalysis
    from accelopt_lsp.analysis.kernels import KernelSource
    from accelopt_lsp.analysis.limited import LimitedCache
    from accelopt_lsp.analysis.syntax import Document
    from accelopt_lsp.analysis.workspace import Workspace
    from accelopt_lsp.nki.outline import Outline
    from accelopt_lsp.workbench.settings import Settings

Handler = Callable[[Any], Any]
DOCUMENT_CHARACTERS = 4_000_000


def serve(handlers: Mapping[str, Handler], pipe: Pipe | None = None) -> None:
    """Answer requests until the server goes."""
    pipe = pipe or Pipe.of_this_process()
    while (message := pipe.read()) is not None:
        operation, *rest = message
        if operation == "cancel":
            return
        answer: tuple[Any, ...]
        try:
            answer = ("result", handlers[operation](*rest))
        except Exception as error:
            trace = traceback.format_exc()
            answer = ("error", f"{operation}: {type(error).__name__}: {error}", trace)
        pipe.write(*answer)


@cache
def _documents() -> LimitedCache[str, Document]:
    """Last texts by path: the next one is mostly an edit away."""
    from accelopt_lsp.analysis.limited import LimitedCache

    return LimitedCache(DOCUMENT_CHARACTERS)


_buffers: dict[str, str] = {}
"""Texts of open documents by path: files that others import may be among them."""


def buffers(changed: Mapping[str, str | None]) -> None:
    """Note what open documents hold; None where one was closed."""
    for path, text in changed.items():
        if text is None:
            _buffers.pop(path, None)
            _documents().discard(path)
        else:
            _buffers[path] = text


@cache
def _workspace() -> Workspace:
    """The files around all documents, as open documents have them."""
    from accelopt_lsp.analysis.workspace import Workspace

    return Workspace(lambda path: _buffers.get(str(path)))


def _document(request: Request) -> Document:
    from accelopt_lsp.analysis.syntax import Document

    known = _documents().get(request.path)
    text = request.text
    document = Document.parse(text) if known is None else known.updated(text)
    _documents().put(request.path, document, len(text))
    return document


def _settings(request: Request) -> tuple[Settings, str | None]:
    """Settings of a file, and which of the client's cannot be used."""
    from accelopt_lsp.workbench.settings import usable_settings

    settings, problems = usable_settings(Path(request.path), request.settings)
    return settings, "; ".join(map(str, problems)) or None


def _project(path: Path) -> tuple[str, tuple[Diagnostic, ...]] | None:
    from accelopt_lsp.workbench.project_file import project_problems

    found = project_problems(path)
    return None if found is None else (str(found[0]), found[1])


def syntax(request: Request) -> Snapshot:
    """What the tree of a text shows, ready long before the rest."""
    from accelopt_lsp.analysis import analyze_syntax
    from accelopt_lsp.analysis.rules import Tier, rules_of
    from accelopt_lsp.workbench.check import options_for

    options = options_for(_settings(request)[0], path=Path(request.path))
    found = analyze_syntax(_document(request), options=options)
    return Snapshot(
        dialect=found.dialect,
        diagnostics=found.diagnostics,
        pages=_pages({d.code for d in found.diagnostics}),
        decided=frozenset(rule.code for rule in rules_of(Tier.SYNTAX)),
        outline=_outline(request, found.kernels),
    )


def _outline(request: Request, kernels: Iterable[KernelSource]) -> Outline:
    from accelopt_lsp.analysis.outline import outline

    return outline(_document(request), [kernel.line for kernel in kernels])


def check(request: Request) -> Snapshot:
    """Analyse a text. Settings that cannot be used are reported, not raised."""
    from accelopt_lsp.analysis import analyze
    from accelopt_lsp.analysis.arguments import directive_template
    from accelopt_lsp.analysis.buffer_uses import buffer_uses
    from accelopt_lsp.analysis.caches import grow_older
    from accelopt_lsp.workbench.check import options_for

    path = Path(request.path)
    settings, problem = _settings(request)
    document = _document(request)
    workspace = _workspace()
    workspace.refresh()
    options = options_for(settings, path=path)
    found = analyze(document, path=path, options=options, workspace=workspace)
    grow_older()
    kernels = tuple(
        KernelView(
            name=kernel.source.name,
            qualname=kernel.source.qualname,
            dialect=kernel.source.dialect,
            first_line=kernel.source.first_line,
            line=kernel.source.line,
            end_line=kernel.source.end_line,
            name_span=kernel.source.name_span,
            target=kernel.target,
            arguments=kernel.arguments,
            directive=directive_template(kernel.source),
            nki_version=options.nki_version or kernel.arguments.nki_version,
            workload=kernel.workload,
            profile=kernel.profile,
            hints=tuple(
                HintView(h.line, h.kind, h.text, h.detail, h.share, h.repeats_source)
                for h in kernel.hints
            ),
            views=kernel.views,
            repeated_loads=kernel.repeated_loads,
        )
        for kernel in [_filled(k, request, settings) for k in found.kernels]
    )
    return Snapshot(
        dialect=found.dialect,
        kernels=kernels,
        diagnostics=found.diagnostics,
        pages=_pages({d.code for d in found.diagnostics}),
        problem=problem,
        project=_project(path),
        files=frozenset(d.path for d in found.dependencies),
        outline=_outline(request, [kernel.source for kernel in found.kernels]),
        buffers=buffer_uses(document, found.kernels),
    )


def _filled(kernel: KernelAnalysis, request: Request, settings: Settings) -> KernelAnalysis:
    """A kernel with the figures of an earlier run of the text as it stands, if there was one."""
    from accelopt_lsp.workbench.filling import filled, known_trace

    profile = known_trace(kernel, Path(request.path), request.text, settings)
    return kernel if profile is None else filled(kernel, profile)


_known_pages: dict[str, str | None] = {}


def _pages(codes: set[str]) -> dict[str, str]:
    """Files with the pages of rules, written once per process."""
    for code in codes - _known_pages.keys():
        _known_pages[code] = _write_page(code)
    return {code: page for code in codes if (page := _known_pages[code]) is not None}


def _write_page(code: str) -> str | None:
    from platformdirs import user_cache_path

    import accelopt_lsp
    from accelopt_lsp.analysis.rules import explain, known_codes

    if code not in known_codes():
        return None
    folder = user_cache_path("accelopt", appauthor=False) / "rules" / accelopt_lsp.__version__
    file = folder / f"{code}.md"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(explain(code), "utf-8")
    except OSError:
        return None
    return str(file)


def codes(_: object) -> tuple[tuple[str, str], ...]:
    """Code and name of every rule, for comments that silence them."""
    from accelopt_lsp.analysis.rules import find_rule, known_codes
    from accelopt_lsp.nki.rules import rule_table

    found = []
    for code in known_codes():
        rule = find_rule(code) or rule_table()[code]
        found.append((code, rule.name))
    return tuple(found)


def strategies(situation: Situation) -> tuple[Learned, ...]:
    """What the optimization memory learned in such a situation."""
    from accelopt_lsp.agents.database import DatabaseProblem
    from accelopt_lsp.agents.gates import widest_float
    from accelopt_lsp.agents.roles import Tags
    from accelopt_lsp.agents.situations import busy_engines, shape_class
    from accelopt_lsp.nki.targets import get_target
    from accelopt_lsp.workbench.memory import fitting_experiences, memory_path
    from accelopt_lsp.workbench.reference import evidence_file

    if not memory_path().exists():
        return ()
    tags = Tags(
        instructions=situation.instructions,
        bottleneck=situation.bottleneck,
        loop_pattern=f"nest{situation.loops}",
        dtype=widest_float(situation.arguments).short,
        dialect=situation.dialect,
        target=situation.target,
        engines=busy_engines(situation.profile) if situation.profile is not None else (),
        shape_class=shape_class(situation.arguments, get_target(situation.target)),
    )
    try:
        found = fitting_experiences(tags, 3)
    except DatabaseProblem:
        return ()
    wanted = set(situation.instructions)
    return tuple(
        Learned(
            id=experience.id,
            title=experience.title,
            helpful=experience.helpful,
            ratio=experience.ratio,
            figures=experience.origin.figures or "unknown provenance",
            wins=experience.wins,
            losses=experience.losses,
            page=evidence_file(experience),
        )
        for experience in found
        if wanted & set(experience.tags.instructions)
    )


def forget(id: str) -> str | None:
    """Remove a strategy from the optimization memory; why it cannot be, or None."""
    from accelopt_lsp.agents.database import DatabaseProblem
    from accelopt_lsp.workbench.memory import UnknownExperience, open_memory

    try:
        with open_memory() as memory:
            memory.forget(id)
    except (DatabaseProblem, UnknownExperience) as error:
        return str(error)
    return None


def warm(_: object) -> None:
    """Import what the first request needs."""
    import accelopt_lsp.workbench.check  # noqa: F401
    from accelopt_lsp.analysis import analyze
    from accelopt_lsp.analysis.caches import settle_collector
    from accelopt_lsp.analysis.syntax import Document

    analyze(Document.parse(_FIRST_TEXT))
    settle_collector()


_FIRST_TEXT = """
import nki
import nki.language as nl

@nki.jit
def kernel(x):
    return nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
"""
HANDLERS: Mapping[str, Handler] = {
    "buffers": buffers,
    "syntax": syntax,
    "check": check,
    "codes": codes,
    "strategies": strategies,
    "forget": forget,
    **worker_edits.HANDLERS,
    "warm": warm,
}


if __name__ == "__main__":
    serve(HANDLERS)
