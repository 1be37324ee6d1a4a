"""Diagnostics as data: every room speaks of problems in these terms, none in LSP's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from attrs import field, frozen


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"
    HINT = "hint"


@frozen(slots=True, order=True)
class Position:
    """A place in a text: line and column from 1, columns in Unicode code points."""

    line: int
    column: int


@frozen(slots=True, order=True)
class Span:
    """From ``start`` up to, not including, ``end``."""

    start: Position
    end: Position

    def contains(self, position: Position) -> bool:
        return self.start <= position <= self.end


@frozen(slots=True)
class Fix:
    """How to mend a diagnostic: a rewrite by name with its parameters.

    The workbench resolves it; whoever reports a problem knows nothing of rewrites' code.
    """

    title: str
    rewrite: str
    parameters: Mapping[str, Any] = field(factory=dict)
    safe: bool = False


@frozen(slots=True)
class Related:
    """Another place that explains a diagnostic; in the same file, if ``path`` is None."""

    span: Span
    message: str
    path: str | None = None


def covers(codes: Iterable[str], code: str) -> bool:
    """Whether a code is among others, or begins with one of them: ``P`` covers ``P10``."""
    return any(code.startswith(wanted.upper()) for wanted in codes)


@frozen(slots=True)
class Diagnostic:
    """One finding.

    Attributes:
        code: stable code of its rule (``R023`` rejected, ``P10`` slow, ``M01`` migration).
        severity: how bad it is.
        message: what is wrong here, with the figures.
        span: where.
        fix: how to mend it, if a rewrite can.
        related: other places that matter.
        deprecated: editors may strike the range through.
    """

    code: str
    severity: Severity
    message: str
    span: Span
    fix: Fix | None = None
    related: tuple[Related, ...] = ()
    deprecated: bool = False
