"""From a schedule to the ``Profile`` that all backends share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.issued import count_issued, count_traffic
from accelopt_lsp.nki.lowering import Issue
from accelopt_lsp.nki.peak import Yardstick, percent_of_peak
from accelopt_lsp.nki.profile import LineIssued, Profile, Provenance, WhatIf
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.traffic import spill_share
from accelopt_lsp.profiler.simulator.timeline.attribution import (
    bound_of,
    bounded_shares,
    engine_uses,
    idle_gaps,
    line_profiles,
)
from accelopt_lsp.profiler.simulator.timeline.counters import counters
from accelopt_lsp.profiler.simulator.timeline.critical import Waits, critical_path
from accelopt_lsp.profiler.simulator.timeline.rounding import intermediates
from accelopt_lsp.profiler.simulator.timeline.schedule import Schedule, uncollected
from accelopt_lsp.profiler.simulator.timeline.uncertainty import interval
from accelopt_lsp.profiler.simulator.timeline.yardstick import COMPULSORY, compulsory
from accelopt_lsp.profiler.simulator.trace import Trace

NOTHING = "the kernel issues no instruction, so there is no latency"


@uncollected()
def profile_from(
    schedule: Schedule,
    trace: Trace,
    *,
    kernel: str,
    target: Target,
    backend: str = "simulator",
    yardstick: tuple[Yardstick, DType, str] | None = None,
    correct: bool | None = None,
    max_relative_error: float | None = None,
    reference: str | None = None,
    what_ifs: tuple[WhatIf, ...] | None = None,
    notes: tuple[str, ...] = (),
) -> Profile:
    """The profile of one simulated run.

    Args:
        schedule: what :func:`simulate` returned for ``trace``.
        trace: the issued instructions.
        kernel: qualified name of the function.
        target: hardware generation.
        backend: name for the report.
        yardstick: what percent of peak is taken against, its data type and the name of the
            basis; by default the compulsory work of the trace.
        correct, max_relative_error, reference: outcome of the verification.
        what_ifs: latencies with one thing changed, if they were asked for.
        notes: further remarks.
    """
    unknown = tuple(sorted(schedule.unknown))
    latency_ns = None if unknown or not len(trace) else schedule.latency_ns
    latency_ms = None if latency_ns is None else latency_ns * 1e-6
    bound = None if latency_ms is None else bound_of(schedule)
    unclear = {op.engine_name for op in schedule.stream.ops if op.unknown}
    needed, dtype, basis = yardstick or (*compulsory(trace, target), COMPULSORY)
    percent = None
    if latency_ms:
        percent = percent_of_peak(latency_ms, needed, target, dtype)
    counts = Counter(code for code, _ in trace.records)
    found = counters(schedule, latency_ns)
    known = latency_ms is not None
    waits = Waits(schedule)
    path = critical_path(schedule, waits)
    idle = idle_gaps(schedule, waits) if known else None
    lines = line_profiles(schedule, path)
    return Profile(
        kernel=kernel,
        target=target.name,
        backend=backend,
        provenance=Provenance.SIMULATED,
        latency_ms=latency_ms,
        uncertainty=None
        if latency_ms is None
        else interval(
            latency_ms,
            target=target.name,
            dialect=trace.dialect,
            bound=bound,
            spill_share=spill_share(found),
        ),
        bound=bound,
        percent_of_peak=percent,
        percent_of_peak_basis=None if percent is None else basis,
        correct=correct,
        max_relative_error=max_relative_error,
        reference=reference,
        unknown_instructions=unknown,
        issued=count_issued(
            ((trace.templates[code].issue, count) for code, count in counts.items()), target
        ),
        counters=found,
        engine_busy_ms={
            name: ns * 1e-6 for name, ns in schedule.engine_busy_ns.items() if name not in unclear
        },
        lines=lines,
        bounded_shares=bounded_shares(path) if known else None,
        idle=idle,
        engines=engine_uses(schedule) if known else None,
        what_ifs=what_ifs if known else None,
        stream=trace.digest(),
        intermediates=intermediates(trace),
        issued_lines=issued_lines(trace, counts, target),
        notes=(*schedule.notes, *notes, *(() if len(trace) else (NOTHING,))),
    )


def issued_lines(trace: Trace, counts: Mapping[int, int], target: Target) -> tuple[LineIssued, ...]:
    """What each source line issues, in the order of the text.

    Args:
        counts: executions by template.
    """
    by_line: dict[int, list[tuple[Issue, int]]] = {}
    for code, count in counts.items():
        template = trace.templates[code]
        by_line.setdefault(template.line, []).append((template.issue, count))
    found = []
    for line, issues in sorted(by_line.items()):
        traffic = count_traffic(issues)
        smallest = min(traffic.descriptors, default=None)
        found.append(LineIssued(line, count_issued(issues, target), traffic.routes, smallest))
    return tuple(found)
