"""What rules on migrations share: when they speak, how loudly, and how often."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from accelopt_lsp.analysis.rules.base import Context, Rule
from accelopt_lsp.analysis.rules.migration.scan import Scan, scan
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Severity
from accelopt_lsp.nki.dialects import Dialect, version_key

FIRST_CURRENT = "0.2"


def at_least(version: str | None, wanted: str) -> bool:
    """Whether the version in force is known and not older than another."""
    return version is not None and version_key(version) >= version_key(wanted)


Place = tuple[ast.AST, str]
"""Syntax, and what is said about it."""


class LegacyMigration(Rule):
    """A construct of the legacy dialect that the current one does not have.

    Legacy kernels are left alone unless the settings or the directive name an NKI version of the
    current dialect: then the first place of each kind is reported, with the number of places.
    """

    severity = Severity.HINT
    one: ClassVar[str] = "place"
    many: ClassVar[str] = "places"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        """Where the construct stands."""
        raise NotImplementedError

    def level(self, context: Context) -> Severity:
        return self.severity

    def check(self, context: Context) -> Iterator[Diagnostic]:
        if context.kernel.dialect is not Dialect.LEGACY:
            return
        if not at_least(context.nki_version, FIRST_CURRENT):
            return
        found = scan(context.document, context.kernel)
        places = list(self.places(context, found)) if found is not None else []
        if not places:
            return
        node, message = places[0]
        count = len(places)
        if count > 1:
            message += f" ({count} {self.many} in {context.kernel.name})"
        yield self.diagnostic(
            context, node, message, severity=self.level(context), fix=self.fix(context)
        )

    def fix(self, context: Context) -> Fix:
        return Fix(
            f"Migrate {context.kernel.name} to current NKI",
            "migrate-kernel",
            {"function": context.kernel.qualname},
        )


class VersionChange(Rule):
    """A form that a later version of the current dialect changed.

    Attributes:
        until: last version that takes the old form as it was meant; None if all do.
        error: whether later versions reject it.
        rewrite: name of the rewrite that mends it, if one does.
        safe: whether the rewrite may be applied without being looked at.
        instead_of: code of a rule whose finding on the same line says the same with less help.
    """

    severity = Severity.HINT
    until: ClassVar[str | None] = None
    error: ClassVar[bool] = True
    rewrite: ClassVar[str | None] = None
    title: ClassVar[str] = ""
    safe: ClassVar[bool] = True
    instead_of: ClassVar[str | None] = None

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        """Where the old form stands."""
        raise NotImplementedError

    def check(self, context: Context) -> Iterator[Diagnostic]:
        if context.kernel.dialect is not Dialect.CURRENT:
            return
        found = scan(context.document, context.kernel)
        if found is None:
            return
        for node, message in self.places(context, found):
            yield self.diagnostic(
                context, node, message, severity=self.level(context), fix=self.fix_at(context, node)
            )

    def level(self, context: Context) -> Severity:
        """Error where the version in force rejects the form, hint where it is not known."""
        version = context.nki_version
        if version is None:
            return Severity.HINT
        if self.until is None or version_key(version) > version_key(self.until):
            return Severity.ERROR if self.error else Severity.WARNING
        return Severity.HINT

    def extra(self, context: Context, node: ast.AST) -> dict[str, object]:
        """What the rewrite needs besides the place."""
        return {}

    def fix_at(self, context: Context, node: ast.AST) -> Fix | None:
        if self.rewrite is None:
            return None
        line = int(getattr(node, "lineno", 1))
        column = int(getattr(node, "col_offset", 0))
        parameters = {"line": line, "column": column, **self.extra(context, node)}
        return Fix(self.title, self.rewrite, parameters, self.safe)
