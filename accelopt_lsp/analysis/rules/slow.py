"""What rules about time share: how much a finding matters, and how that becomes a severity."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import sqrt

from accelopt_lsp.analysis.affine import Var
from accelopt_lsp.analysis.machine import Record
from accelopt_lsp.analysis.roofline import QUEUES, trigger_ns
from accelopt_lsp.analysis.rules.base import Context, Rule, share_severity
from accelopt_lsp.analysis.sites import Site
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Related, Severity
from accelopt_lsp.nki.lowering import Issue
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.work import Route

LEAST_SHARE = 0.03
"""Findings about less of the estimated time are not worth a line."""
LEAST_OF_SHORT = 0.2
"""The same in kernels that mostly wait for their launch and for single transfers."""
_RANK = (Severity.ERROR, Severity.WARNING, Severity.INFORMATION, Severity.HINT)


class SlowRule(Rule):
    """A rule about time: a finding's severity is the share of the time that it is about."""

    severity = Severity.INFORMATION

    def report(
        self,
        context: Context,
        node: ast.AST,
        share: float,
        message: str,
        *,
        fix: Fix | None = None,
        related: tuple[Related, ...] = (),
        most: Severity = Severity.WARNING,
    ) -> Iterator[Diagnostic]:
        """The finding, unless it is about too small a share of the estimated time.

        Args:
            share: of the estimated time, as :func:`matters` weighs it.
            most: no severity above this one.
        """
        busiest = max(context.workload.ceilings_ns.values(), default=0.0)
        if share < (LEAST_SHARE if busiest > context.latency_ns / 2 else LEAST_OF_SHORT):
            return
        severity = max(share_severity(share), most, key=_RANK.index)
        yield self.diagnostic(context, node, message, severity=severity, fix=fix, related=related)


def matters(context: Context, resource: str, saved_ns: float) -> float:
    """Share of the estimated time that can be saved on one resource.

    A resource that is far from bounding the kernel weighs less: its work hides behind others'.
    """
    ceilings = context.workload.ceilings_ns
    longest = max(ceilings.values(), default=0.0)
    if not longest:
        return 0.0
    pressed = min(1.0, ceilings.get(resource, 0.0) / longest)
    return saved_ns / context.latency_ns * sqrt(pressed)


def transfer_matters(context: Context, site: Site, saved: float) -> float:
    """The same for a share ``saved`` of a call's transfers: of bandwidth, or of their queue."""
    machine = context.machine
    queues: dict[str, float] = {}
    for issue, times in site.issues():
        dma = issue.work.dma
        if dma is not None:
            queue = QUEUES.get(dma.route, QUEUES[Route.LOAD])
            spent = times * trigger_ns(issue, machine.target, machine.dialect)
            queues[queue] = queues.get(queue, 0.0) + spent
    shares = [matters(context, queue, ns * saved) for queue, ns in queues.items()]
    dma_name = Engine.DMA.value
    return max([*shares, matters(context, dma_name, site.busy_ns(dma_name) * saved)])


def turning(loops: Iterable[Var]) -> list[Var]:
    """Loops with more than one iteration, outermost first."""
    return [v for v in loops if v.trips > 1]


def issues_by_call(site: Site) -> list[tuple[Record, Issue]]:
    """Every record's instructions."""
    return [(record, issue) for record in site.records for issue in record.lowered.issues]


def percent(share: float) -> str:
    """``12 %``."""
    return f"{100 * share:.0f} %"


def one_per_cause(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Of several findings about time at one place, the gravest; of equal ones the first."""
    kept: list[Diagnostic] = []
    best: dict[object, int] = {}
    for diagnostic in found:
        if not diagnostic.code.startswith("P"):
            kept.append(diagnostic)
            continue
        at = best.get(diagnostic.span)
        if at is None:
            best[diagnostic.span] = len(kept)
            kept.append(diagnostic)
        elif _RANK.index(diagnostic.severity) < _RANK.index(kept[at].severity):
            kept[at] = diagnostic
    return kept
