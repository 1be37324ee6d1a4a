"""What every rule shares: a page for people, and how it finds what it reports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar

from attrs import frozen

from accelopt_lsp.analysis.directives import kernel_directive
from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.machine import Machine, Record
from accelopt_lsp.analysis.modules import Origin
from accelopt_lsp.analysis.roofline import overhead_ns
from accelopt_lsp.analysis.sites import Site
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import span_of
from accelopt_lsp.analysis.values import Storage
from accelopt_lsp.analysis.workload import Facts
from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Position, Related, Severity, Span
from accelopt_lsp.nki.dialects import version_key
from accelopt_lsp.nki.instructions import Violation
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.rules import rule_table
from accelopt_lsp.nki.workload import Workload


class Tier(StrEnum):
    """When a rule can be decided: of the tree alone, or once kernels were interpreted."""

    SYNTAX = "syntax"
    FULL = "full"


@frozen(slots=True, eq=False)
class FileContext:
    """What a rule of the syntax tier may look at: the text, its tree, and what is in it.

    ``nki_version`` is the NKI version of the settings; None where they name none.
    """

    document: Document
    kernels: tuple[KernelSource, ...]
    nki_version: str | None = None

    def version_of(self, kernel: KernelSource) -> str | None:
        """The NKI version in force for a kernel: of the settings, else of its directive."""
        return self.nki_version or kernel_directive(self.document, kernel).nki_version


@frozen(slots=True, eq=False)
class Context:
    """What a rule of the full tier may look at.

    ``nki_version`` is the NKI version in force; None where nobody says. ``facts``: counts by call.
    ``arguments``: what the kernel was interpreted with.
    """

    document: Document
    kernel: KernelSource
    machine: Machine
    workload: Workload
    profile: Profile
    nki_version: str | None = None
    facts: Facts | None = None
    arguments: KernelArguments | None = None

    @property
    def guessed(self) -> bool:
        """Whether nothing is stated for the kernel, or some argument was found out elsewhere."""
        origins = self.arguments.origins.values() if self.arguments is not None else ()
        stated = ("given", "directive", "reference", "annotation")
        return not origins or not all(origin.startswith(stated) for origin in origins)

    @property
    def latency_ns(self) -> float:
        """Estimated time of what was counted, the launch included."""
        longest = max(self.workload.ceilings_ns.values(), default=0.0)
        return longest + overhead_ns(self.workload, self.machine.target)

    @property
    def sites(self) -> tuple[Site, ...]:
        """What each call of the text issues over the whole kernel."""
        return () if self.facts is None else self.facts.sites

    def related(self, line: int, message: str) -> Related:
        return Related(self.document.line_span(line), message)


class Rule:
    """One rule: a code, a name, a default severity and a page.

    The docstring of each subclass is its page, under the headings What it does, Why, Example,
    Use instead. A rule of the syntax tier implements :meth:`check_file` and is asked once a
    file, whatever becomes of its kernels; one of the full tier implements :meth:`check` and is
    asked for every kernel that was interpreted.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity] = Severity.ERROR
    certain_from: ClassVar[str | None] = None
    tier: ClassVar[Tier] = Tier.FULL

    def check_file(self, context: FileContext) -> Iterator[Diagnostic]:
        """What the tree alone shows."""
        return iter(())

    def check(self, context: Context) -> Iterator[Diagnostic]:
        """What the rule finds in one kernel."""
        yield from self.findings(context)
        yield from self.violations(context)

    def findings(self, context: Context) -> Iterator[Diagnostic]:
        """What the interpreter noted under this rule's code."""
        usual = self.severity_at(context.nki_version)
        for finding in context.machine.findings:
            if finding.code == self.code:
                yield self.diagnostic(
                    context,
                    finding.node,
                    finding.message,
                    severity=finding.severity or usual,
                    fix=finding.fix,
                    related=elsewhere(finding.origin),
                )

    @classmethod
    def severity_at(cls, version: str | None) -> Severity:
        """How bad it is at an NKI version: an error only from where it is sure to fail."""
        if cls.certain_from is None or version is None:
            return cls.severity
        certain = version_key(version) >= version_key(cls.certain_from)
        return Severity.ERROR if certain else cls.severity

    def violations(self, context: Context) -> Iterator[Diagnostic]:
        """Limits that lowering found broken, each once at the argument that breaks it."""
        told: set[tuple[Record, ast.AST]] = set()
        for record, violation in self.broken(context):
            node = _argument(record, violation)
            if (record, node) in told:
                continue  # the call's next instruction says of it what this one does
            told.add((record, node))
            yield self.diagnostic(
                context,
                node,
                _named_as_written(record, violation),
                severity=self.severity_of(context, record),
                related=elsewhere(record.origin),
            )

    def broken(self, context: Context) -> Iterator[tuple[Record, Violation]]:
        """Calls that break limits of this rule, in their order."""
        for record in context.machine.records:
            for violation in record.lowered.violations:
                if violation.code == self.code and self.applies(context, record, violation):
                    yield record, violation

    def severity_of(self, context: Context, record: Record) -> Severity:
        """How bad a broken limit is in this call."""
        return self.severity

    def applies(self, context: Context, record: Record, violation: Violation) -> bool:
        """Whether a broken limit is sure to be rejected in this kernel."""
        return True

    def place(self, context: Context, storage: Storage) -> Span:
        """Where a tensor is created."""
        if storage.node is not None:
            return span_of(context.document, storage.node)
        return context.document.line_span(storage.line)

    def diagnostic(
        self,
        context: Context,
        node: ast.AST,
        message: str,
        *,
        severity: Severity | None = None,
        fix: Fix | None = None,
        related: tuple[Related, ...] = (),
    ) -> Diagnostic:
        return Diagnostic(
            self.code,
            severity or self.severity,
            message,
            span_of(context.document, node),
            fix,
            related,
        )

    @classmethod
    def page(cls) -> str:
        """The rule's documentation, as markdown."""
        import inspect

        text = inspect.cleandoc(cls.__doc__ or "")
        return f"# {cls.code}: {cls.name}\n\n{text}\n"


def elsewhere(origin: Origin | None) -> tuple[Related, ...]:
    """The place in another file that a finding at a call is about."""
    if origin is None:
        return ()
    start = Position(origin.line, 1)
    return (Related(Span(start, start), "the call that this is about", origin.path),)


class TableRule(Rule):
    """A rule whose name, severity and page stand in the table of rules; a subclass finds it."""

    def __init_subclass__(cls) -> None:
        if "code" not in vars(cls):
            return
        entry = rule_table()[cls.code]
        cls.name, cls.severity, cls.certain_from = entry.name, entry.severity, entry.certain_from
        cls.__doc__ = entry.page()


def slot_of(record: Record, violation: Violation) -> str | None:
    """The call's parameter that a violation is about, if one can be named."""
    if violation.role is None:
        return None
    if violation.role in record.nodes or violation.role in record.views:
        return violation.role
    for issue in record.lowered.issues:
        slot = dict(issue.operands).get(violation.role)
        if slot is not None and slot.partition("@")[0] in {*record.nodes, *record.views}:
            return slot.partition("@")[0]
    return None


def _argument(record: Record, violation: Violation) -> ast.AST:
    """Syntax of the argument that a violation is about, or of the call."""
    slot = slot_of(record, violation)
    return record.node if slot is None else record.nodes.get(slot, record.node)


def _named_as_written(record: Record, violation: Violation) -> str:
    """The message, with the call's own name where it issues instructions of another."""
    issued, _, rest = violation.message.partition(": ")
    called = record.call.func if isinstance(record.call, ast.Call) else None
    if not isinstance(called, ast.Attribute) or called.attr == issued or not issued.isidentifier():
        return violation.message
    return f"{ast.unparse(called)} ({issued}): {rest}"


def share_severity(share: float) -> Severity:
    """Severity of a performance finding by the share of the kernel's time it is about."""
    if share >= 0.2:
        return Severity.WARNING
    if share >= 0.05:
        return Severity.INFORMATION
    return Severity.HINT
