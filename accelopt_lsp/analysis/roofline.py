"""An estimate of a kernel's latency from its workload alone.

The slowest engine decides: engines are taken to overlap perfectly, dependencies, load merging
and spills are ignored. The simulator knows better; this answers at once.
"""

from __future__ import annotations

from accelopt_lsp.nki.dtypes import BFLOAT16, FLOAT32, DType
from accelopt_lsp.nki.lowering import Issue
from accelopt_lsp.nki.peak import Yardstick, percent_of_peak
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


def product_dtype(issues: list[tuple[Issue, int]]) -> DType:
    """The type whose rate bounds the true matrix products: float32 if any runs in four passes."""
    passes = [i.work.passes for i, _ in issues if i.work.flops and not i.work.is_transpose]
    return FLOAT32 if max(passes, default=0) == 4 else BFLOAT16


def estimate(kernel: str, workload: Workload, target: Target, dtype: DType) -> Profile:
    """The estimated profile; latency is None where something was not counted."""
    busy = dict(workload.issued.engine_ns)
    unknown = tuple(sorted(workload.unknown_instructions))
    engine, longest = max(busy.items(), key=lambda item: item[1], default=("", 0.0))
    launch = target["launch_ns"]
    latency = (longest + launch) * 1e-6 if longest and workload.complete else None
    percent = None
    if latency is not None:
        percent = percent_of_peak(latency, _yardstick(workload), target, dtype)
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


def _yardstick(workload: Workload) -> Yardstick:
    moved = (workload.compulsory_read_bytes or 0) + (workload.compulsory_write_bytes or 0)
    return Yardstick(0.0, float(workload.issued.matmul_flops), float(moved))


def _lines(workload: Workload) -> tuple[LineProfile, ...]:
    found = [
        LineProfile(
            line=line.line,
            engine=line.engine,
            instructions=line.issued.total_instructions,
            busy_ms=line.engine_ns * 1e-6,
            bytes=line.issued.hbm_read_bytes + line.issued.hbm_write_bytes,
        )
        for line in workload.lines
    ]
    return tuple(sorted(found, key=lambda item: -item.busy_ms))
