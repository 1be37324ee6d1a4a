"""The rewrite ``migrate-kernel``."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from attrs import frozen

from accelopt_lsp.analysis.arguments import discover_arguments
from accelopt_lsp.analysis.kernels import KernelSource, find_kernels
from accelopt_lsp.analysis.names import Aliases
from accelopt_lsp.analysis.rules.migration.scan import Scan, canonical_name, scan
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import module_of
from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.python_source import parse_python
from accelopt_lsp.nki.targets import Target, get_target
from accelopt_lsp.rewrites.base import Description, NotApplicable, RewriteContext, Site
from accelopt_lsp.rewrites.migrate.imports import (
    annotation_edits,
    decorator_edits,
    host_edits,
    import_edits,
)
from accelopt_lsp.rewrites.migrate.observe import Observation, observe
from accelopt_lsp.rewrites.migrate.statements import Translation
from accelopt_lsp.rewrites.migrate.writer import Writer
from accelopt_lsp.rewrites.source import Edit, SourceText


@frozen(slots=True)
class Migrated:
    """A migrated file.

    Attributes:
        text: the new text.
        by_hand: (line of the old text, reason) of what is left to do; empty unless partial.
    """

    text: str
    by_hand: tuple[tuple[int, str], ...] = ()


def migrate_text(
    text: str,
    arguments: Mapping[str, KernelArguments] | None = None,
    target: Target | None = None,
    *,
    partial: bool = False,
    only: str | None = None,
) -> Migrated:
    """All legacy kernels of a file, and what they call in it, in the current dialect.

    Args:
        arguments: by qualified name of a kernel; others are looked for in the file.
        target: hardware whose limits count; trn1 if left out.
        partial: leave what cannot be migrated, with a comment that says why.
        only: name of the one kernel that counts; others of the file are left out of the result.

    Raises:
        NotApplicable: there is no legacy kernel, or one cannot be migrated; the message names the
            line and what to do by hand.
    """
    document = Document.parse(text)
    kernels = [k for k in find_kernels(document) if k.dialect is Dialect.LEGACY]
    if only is not None:
        alone = _alone(document, kernels, only)
        if alone != text:
            return migrate_text(alone, arguments, target, partial=partial)
    if not kernels:
        raise NotApplicable("the file has no kernel in the legacy dialect")
    target = target or get_target("trn1")
    merged = _merged(document, kernels, dict(arguments or {}), target)
    scans = [s for s in (scan(document, k) for k in kernels) if s is not None]
    if len(scans) != len(kernels):
        raise NotApplicable("a kernel of the file does not parse")
    whole = _union(scans)
    aliases = kernels[0].aliases
    source = SourceText(text)
    modules = {v: k for k, v in reversed(tuple(aliases.table.items())) if v in ("nl", "nisa")}
    writer = Writer(source, whole, merged, aliases, target, modules)
    translation = Translation(writer, partial=partial)
    translation.run()
    tree = module_of(document)
    edits = [
        *translation.changes(),
        *decorator_edits(source, whole, aliases),
        *annotation_edits(source, whole, aliases),
        *host_edits(source, tree, aliases),
        *import_edits(source, tree, frozenset(writer.needed), aliases),
    ]
    new = without_old_names(without_unused_numpy(text, source.apply(edits)), aliases)
    by_hand = tuple(
        (translation.statements[key].lineno, reason) for key, reason in translation.refused.items()
    )
    return Migrated(new, tuple(sorted(by_hand)))


def _alone(document: Document, kernels: list[KernelSource], name: str) -> str:
    """The text without kernels that the named one does not call."""
    kept: set[str] = set()
    for kernel in kernels:
        if name in (kernel.name, kernel.qualname):
            found = scan(document, kernel)
            kept |= {f.name for f in found.functions} if found is not None else set()
    source = SourceText(document.text)
    edits = []
    for kernel in kernels:
        if kernel.name not in kept:
            # Empty lines in its place: the others keep their line numbers.
            start, end = source.line_range(kernel.first_line, kernel.end_line)
            empty = source.newline * (kernel.end_line - kernel.first_line + 1)
            edits.append(Edit(start, end, empty))
    return source.apply(edits)


def _merged(
    document: Document,
    kernels: list[KernelSource],
    arguments: dict[str, KernelArguments],
    target: Target,
) -> Observation:
    """What all kernels of the file see of its expressions."""
    found: Observation | None = None
    for kernel in kernels:
        given = arguments.get(kernel.qualname) or discover_arguments(document, kernel)
        seen = observe(document, kernel, given, target)
        if found is None:
            found = seen
            continue
        for key, values in seen.values.items():
            found.values.setdefault(key, []).extend(values)
    assert found is not None
    return found


def _union(scans: list[Scan]) -> Scan:
    functions = []
    for one in scans:
        functions += [f for f in one.functions if f not in functions]
    inside = {id(n) for f in functions for n in ast.walk(f)}
    nodes, calls, names, seen = [], [], [], set()
    for one in scans:
        for node in one.nodes:
            if id(node) in inside and id(node) not in seen:
                seen.add(id(node))
                nodes.append(node)
    known: set[int] = set()
    for one in scans:
        for entry in one.calls:
            if id(entry[1]) not in known:
                known.add(id(entry[1]))
                calls.append(entry)
        for name in one.names:
            if id(name[1]) not in known:
                known.add(id(name[1]))
                names.append(name)
    return Scan(scans[0].kernel, tuple(functions), tuple(nodes), tuple(calls), tuple(names))


def without_unused_numpy(before: str, after: str) -> str:
    """The new text without an import of NumPy that only the old one used."""
    old, new = parse_python(before), parse_python(after)
    source = SourceText(after)
    edits = []
    for node in ast.walk(new):
        if isinstance(node, ast.Import) and len(node.names) == 1 and node.names[0].name == "numpy":
            local = node.names[0].asname or "numpy"
            if _loads(old, local) and not _loads(new, local):
                edits.append(source.delete_lines(node.lineno, node.end_lineno or node.lineno))
    return source.apply(edits)


def without_old_names(text: str, aliases: Aliases) -> str:
    """The new text without names for the old compiler's functions that nothing uses any more."""
    tree = parse_python(text)
    source = SourceText(text)
    edits = []
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        old = (canonical_name(node.value, aliases) or "").startswith("ncc.")
        if old and not _loads(tree, node.targets[0].id):
            edits.append(source.delete_lines(node.lineno, node.end_lineno or node.lineno))
    return source.apply(edits)


def _loads(tree: ast.AST, name: str) -> bool:
    return any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
        for n in ast.walk(tree)
    )


class MigrateKernel:
    """From ``neuronxcc.nki`` to ``nki``."""

    name = "migrate-kernel"
    title = "Migrate to current NKI"
    tags = ("migration",)
    description = Description(
        title="Migrate to current NKI",
        strategy=(
            "Kernels of neuronxcc.nki do not compile from NKI 0.4 on. Instructions write into "
            "tiles that are declared, slices take the place of index arrays and masks, blocks "
            "become lists of tiles or are declared in their loop."
        ),
        before=(
            "p, f = nl.arange(128)[:, None], nl.arange(512)[None, :]\n"
            "tile = nl.load(x[i * 128 + p, f], mask=(i * 128 + p < n))\n"
            "y = nisa.reciprocal(tile)"
        ),
        after=(
            "rows = min(128, n - i * 128)\n"
            "tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)\n"
            "nisa.dma_copy(dst=tile[0:rows, 0:512], src=x[i * 128 : i * 128 + rows, 0:512])\n"
            "y = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)\n"
            "nisa.reciprocal(dst=y, data=tile)"
        ),
        bottlenecks=("latency",),
        instructions=("dma_copy",),
    )

    def find(self, context: RewriteContext) -> tuple[Site, ...]:
        if not context.legacy:
            return ()
        name = context.kernel.qualname
        return (
            Site(
                self.name,
                f"{self.name}:{name}",
                f"Rewrite {name} and what it calls for current NKI",
                {"function": name},
                "the kernel compiles with NKI 0.4 and later",
                context.kernel.line,
            ),
        )

    def apply(self, context: RewriteContext, site: Site) -> str:
        if not context.legacy:
            raise NotApplicable(f"{context.kernel.qualname} is written in the current dialect")
        given = {context.kernel.qualname: context.arguments} if context.arguments.values else {}
        return migrate_text(context.text, given, context.target).text
