"""Kernels that were analyzed before and rest on nothing that has changed since.

What a run read of its own file is known by statement (:attr:`Home.done`), what it read of others
by digest. A result holds while these are the same, at the same lines, and so is everything else
that decides about it: arguments, target, options, the names that the file binds and imports, and
the places elsewhere in it that launch kernels.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Hashable, Iterator
from pathlib import Path

from attrs import evolve, frozen

from accelopt_lsp.analysis.chunks import Chunk, chunks_of
from accelopt_lsp.analysis.directives import find_suppressions
from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.limited import LimitedCache
from accelopt_lsp.analysis.modules import Home
from accelopt_lsp.analysis.results import AnalysisOptions, KernelAnalysis
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import module_of
from accelopt_lsp.analysis.uses import uses_of
from accelopt_lsp.analysis.workspace import Workspace, parse_module
from accelopt_lsp.nki.arguments import KernelArguments

MAX_KERNELS = 150
_VARIANTS = 4
_PLAIN = frozenset({"nki", "nki.jit"})
"""Names whose use elsewhere says nothing about a kernel."""

Place = tuple[str, int]
"""Text and first line of a chunk."""


@frozen(slots=True, eq=False)
class _Known:
    """A result, and what of its file it was read from."""

    statements: frozenset[Place]
    analysis: KernelAnalysis


_KERNELS: LimitedCache[Hashable, tuple[_Known, ...]] = LimitedCache(MAX_KERNELS)


def kernel_key(
    document: Document,
    kernel: KernelSource,
    arguments: KernelArguments,
    target: str,
    path: Path | None,
    options: AnalysisOptions,
    steps: int,
) -> Hashable:
    """All that decides about a kernel's analysis, statements and files that it reads apart."""
    suppressions = find_suppressions(document) if options.suppressions else None
    return (
        None if path is None else str(path.absolute()),
        kernel.qualname,
        kernel.line,
        _place_at(document, kernel.line),
        repr(arguments),
        target,
        steps,
        options.nki_version,
        options.ignore,
        tuple(sorted(options.severities.items())),
        None if suppressions is None else (tuple(suppressions.by_line.items()), suppressions.file),
        _surroundings(document),
        tuple(_launches(document, kernel)),
    )


def find_known(document: Document, key: Hashable, workspace: Workspace) -> KernelAnalysis | None:
    """The result of an earlier run under this key that still holds."""
    variants = _KERNELS.get(key)
    if variants is None:
        return None
    places = _places(document)
    for known in variants:
        if known.statements <= places and all(
            _digest(workspace, d.path) == d.digest for d in known.analysis.dependencies
        ):
            return known.analysis
    return None


def keep_known(document: Document, key: Hashable, analysis: KernelAnalysis, home: Home) -> None:
    """Remember a result."""
    body = module_of(document).body
    statements = frozenset(_place_at(document, body[n].lineno) for n in home.done)
    analysis = evolve(analysis, source=evolve(analysis.source, node=None))
    others = _KERNELS.get(key) or ()
    variants = (_Known(statements, analysis), *others)[:_VARIANTS]
    _KERNELS.put(key, variants, len(variants))


def grow_older(most: int) -> None:
    """An analysis is over; results that the last ``most`` did not use are dropped."""
    _KERNELS.grow_older(most)


def forget() -> None:
    """Drop every kept result."""
    _KERNELS.clear()


def _digest(workspace: Workspace, path: str) -> str | None:
    source = workspace.source(Path(path))
    return None if source is None else source.digest


def _places(document: Document) -> frozenset[Place]:
    found: frozenset[Place] | None = document.cache.get("places")
    if found is None:
        found = frozenset((c.text, c.line) for c in chunks_of(document))
        document.cache["places"] = found
    return found


def _place_at(document: Document, line: int) -> Place:
    chunks = chunks_of(document)
    index = bisect_right(chunks, line, key=_line) - 1
    return (chunks[index].text, chunks[index].line) if index >= 0 else ("", 0)


def _line(chunk: Chunk) -> int:
    return chunk.line


def _surroundings(document: Document) -> Hashable:
    """Names that the file binds, and its imports."""
    found: Hashable = document.cache.get("surroundings")
    if found is None:
        body = module_of(document).body
        bindings = parse_module(ast.Module(body, []), None).bindings
        imports = tuple(
            _place_at(document, n.lineno)
            for n in body
            if isinstance(n, ast.Import | ast.ImportFrom)
        )
        found = document.cache["surroundings"] = (tuple(bindings.items()), imports)
    return found


def _launches(document: Document, kernel: KernelSource) -> Iterator[Place]:
    """Statements that name the kernel, or call NKI itself: rules look at them too."""
    for statement in module_of(document).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        uses = uses_of(statement)
        if kernel.name in uses.loads or any(
            name.startswith("nki.") and name not in _PLAIN
            for dotted, _ in uses.names
            if (name := kernel.aliases.canonical(dotted)) is not None
        ):
            yield _place_at(document, statement.lineno)
