"""An estimate of a kernel's latency from its workload alone.

The slowest engine decides: engines are taken to overlap perfectly, dependencies, load merging
and spills are ignored. The simulator knows better; this answers at once.
"""

from __future__ import annotations

from accelopt_lsp.nki.costs import has_cost
from accelopt_lsp.nki.dtypes import BFLOAT16
from accelopt_lsp.nki.lowering import Issue
from accelopt_lsp.nki.peak import Yardstick, matmul_peak, percent_of_peak, product_peak
from accelopt_lsp.nki.profile import (
    COUNTER_NAMES,
    Bound,
    LineProfile,
    Profile,
    Provenance,
    Uncertainty,
)
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.workload import Workload

LOW, HIGH = 0.6, 2.5
"""Interval around an estimate: compilers merge loads and hide work, and engines wait."""
NOTE = (
    "estimated from the source: engines overlap perfectly, no load merging, no spills; "
    "profile the kernel for better figures"
)


def product_flops(issues: list[tuple[Issue, int]], target: Target) -> float:
    """FLOPs of the true matrix products; those of other than 16-bit types count as the FLOPs in
    16 bits that take as long."""
    peak = matmul_peak(target, BFLOAT16)
    return sum(
        count * issue.work.flops * (peak / product_peak(target, issue.work))
        for issue, count in issues
        if issue.work.flops and not issue.work.is_transpose
    )


def estimate(kernel: str, workload: Workload, target: Target, flops: float) -> Profile:
    """The estimated profile; latency is None where something was not counted.

    Args:
        flops: of the products, as :func:`product_flops` counts them.
    """
    busy = dict(workload.issued.engine_ns)
    unknown = tuple(sorted(workload.unknown_instructions))
    engine, longest = max(busy.items(), key=lambda item: item[1], default=("", 0.0))
    launch = target["launch_ns"]
    latency = (longest + launch) * 1e-6 if longest and workload.complete else None
    percent = None
    if latency is not None:
        percent = percent_of_peak(latency, _yardstick(workload, flops), target, BFLOAT16)
    counters: dict[str, float | None] = dict.fromkeys(COUNTER_NAMES)
    if workload.complete:
        counters["hbm_read_bytes"] = workload.issued.hbm_read_bytes
        counters["hbm_write_bytes"] = workload.issued.hbm_write_bytes
    return Profile(
        kernel=kernel,
        target=target.name,
        backend="static",
        provenance=Provenance.ESTIMATED,
        latency_ms=latency,
        uncertainty=None
        if latency is None
        else Uncertainty(latency * LOW, latency * HIGH, extrapolated=True),
        bound=_bound(engine, longest, launch) if latency is not None else None,
        percent_of_peak=percent,
        percent_of_peak_basis=None if percent is None else "compulsory",
        unknown_instructions=unknown,
        issued=workload.issued,
        counters=counters,
        engine_busy_ms={name: ns * 1e-6 for name, ns in busy.items()},
        lines=_lines(workload),
        notes=(NOTE,),
    )


def _bound(engine: str, busy_ns: float, launch_ns: float) -> Bound:
    return Bound.LATENCY if busy_ns < launch_ns else Bound(engine)


def _yardstick(workload: Workload, flops: float) -> Yardstick:
    moved = (workload.compulsory_read_bytes or 0) + (workload.compulsory_write_bytes or 0)
    return Yardstick(0.0, flops, float(moved))


def _lines(workload: Workload) -> tuple[LineProfile, ...]:
    found = [
        LineProfile(
            line=line.line,
            engine=line.engine,
            instructions=line.issued.total_instructions,
            busy_ms=line.engine_ns * 1e-6 if all(map(has_cost, line.issued.instructions)) else None,
            bytes=line.issued.hbm_read_bytes + line.issued.hbm_write_bytes,
        )
        for line in workload.lines
    ]
    return tuple(sorted(found, key=lambda item: -(item.busy_ms or 0.0)))
