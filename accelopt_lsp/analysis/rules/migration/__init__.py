"""Rules on what changed: from the legacy dialect to the current one, and within that one."""

from __future__ import annotations

from accelopt_lsp.analysis.rules.base import Rule
from accelopt_lsp.analysis.rules.migration import files, running, signatures, tiles, versions
from accelopt_lsp.analysis.rules.migration.base import VersionChange
from accelopt_lsp.nki.diagnostics import Diagnostic

MIGRATION_RULES: tuple[type[Rule], ...] = tuple(
    value
    for module in (files, tiles, signatures, versions, running)
    for value in vars(module).values()
    if isinstance(value, type)
    and issubclass(value, Rule)
    and value.__module__ == module.__name__
    and hasattr(value, "code")
)


def without_repeats(found: list[Diagnostic]) -> list[Diagnostic]:
    """Findings without those that a migration rule reports on the same line, with its remedy."""
    covers = {r.code: r.instead_of for r in MIGRATION_RULES if issubclass(r, VersionChange)}
    covered = {(d.span.start.line, covers[d.code]) for d in found if covers.get(d.code)}
    return [d for d in found if (d.span.start.line, d.code) not in covered]
