"""An estimate of a kernel's latency from its workload alone.

The slowest resource decides: engines, DMA bandwidth, queues that trigger transfers and ports that
engines share. All of them are taken to overlap perfectly; waits, load merging and spills are left
out. The simulator knows better; this answers at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from accelopt_lsp.nki.costs import descriptor_generation_ns, has_cost, instruction_cost
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import BFLOAT16, FLOAT32
from accelopt_lsp.nki.lowering import Issue
from accelopt_lsp.nki.nkibench import BASIS
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.peak import Yardstick, matmul_peak, percent_of_peak, product_peak
from accelopt_lsp.nki.ports import PSUM_PORT, SBUF_PORT, held_ports
from accelopt_lsp.nki.profile import (
    COUNTER_NAMES,
    Bound,
    Issued,
    LineProfile,
    Profile,
    Provenance,
    Uncertainty,
)
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.work import Route
from accelopt_lsp.nki.workload import Workload

LOW, HIGH = 0.6, 2.5
"""Interval around an estimate: compilers merge loads and hide work, and engines wait."""
NOTE = (
    "estimated from the source: everything overlaps but the launch, the first load and the last "
    "store; no merged loads, no spills, no waits between engines, no throttling of the Tensor "
    "Engine; profile the kernel for better figures"
)
QUEUES = {Route.LOAD: "load queue", Route.STORE: "store queue"}
"""Transfers that one queue triggers one after another."""
_PORTS = {SBUF_PORT: "sbuf port", PSUM_PORT: "psum port"}


def ceilings(
    issued: Issued, issues: Iterable[tuple[Issue, int]], target: Target, dialect: Dialect
) -> dict[str, float]:
    """Time in ns that each resource needs at least.

    Engines by name, ``dma`` for the bandwidth of all DMA engines, and where they matter at all:
    queues, which trigger one transfer at a time, and ports that two engines share.
    """
    found = dict(issued.engine_ns)
    queues: dict[str, float] = {}
    ports: dict[int, dict[Engine, float]] = {SBUF_PORT: {}, PSUM_PORT: {}}
    for issue, count in issues:
        dma = issue.work.dma
        if dma is not None:
            queue = QUEUES.get(dma.route, QUEUES[Route.LOAD])
            queues[queue] = queues.get(queue, 0.0) + count * trigger_ns(issue, target, dialect)
            continue
        held = held_ports(issue.op, issue.engine, issue.work, target)
        if not held:
            continue
        cost = instruction_cost(issue.op, issue.engine, issue.work, target)
        for port, users in ports.items():
            if held & port and cost is not None:
                users[issue.engine] = users.get(issue.engine, 0.0) + count * cost.busy_ns
    found.update(queues)
    for port, users in ports.items():
        if len(users) > 1:
            found[_PORTS[port]] = sum(users.values())
    return found


def trigger_ns(issue: Issue, target: Target, dialect: Dialect) -> float:
    """Time that a transfer occupies its queue."""
    made = 0.0
    if dialect is Dialect.CURRENT:
        made = descriptor_generation_ns(issue.attr("dge_mode"), target)
    return made or target["dma_trigger_ns"]


def resource_bound(resource: str) -> Bound:
    """What a ceiling is called as a bound."""
    if resource.endswith("queue"):
        return Bound.DMA
    return Bound.VECTOR if resource.endswith("port") else Bound(resource)


def product_flops(issues: list[tuple[Issue, int]], target: Target) -> float:
    """FLOPs of the true matrix products; those of other than 16-bit types count as the FLOPs in
    16 bits that take as long."""
    peak = matmul_peak(target, BFLOAT16)
    return sum(
        count * issue.work.flops * (peak / product_peak(target, issue.work))
        for issue, count in issues
        if issue.work.flops and not issue.work.is_transpose
    )


def estimate(
    kernel: str,
    workload: Workload,
    target: Target,
    flops: float,
    known: Yardstick | None = None,
) -> Profile:
    """The estimated profile; latency is None where something was not counted.

    Args:
        flops: of the products, as :func:`product_flops` counts them.
        known: what the problem needs by NKIBench's formula, if it is one of its problems.
    """
    busy = dict(workload.issued.engine_ns)
    unknown = tuple(sorted(workload.unknown_instructions))
    limits = workload.ceilings_ns or busy
    resource, longest = max(limits.items(), key=lambda item: item[1], default=("", 0.0))
    overhead = overhead_ns(workload, target)
    counted = longest and workload.complete and all(map(has_cost, workload.issued.instructions))
    latency = (longest + overhead) * 1e-6 if counted else None
    percent = None
    if latency is not None:
        needed, dtype = (known, FLOAT32) if known else (_yardstick(workload, flops), BFLOAT16)
        percent = percent_of_peak(latency, needed, target, dtype)
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
        bound=_bound(resource, longest, overhead) if latency is not None else None,
        percent_of_peak=percent,
        percent_of_peak_basis=None if percent is None else (BASIS if known else "compulsory"),
        unknown_instructions=unknown,
        issued=workload.issued,
        counters=counters,
        engine_busy_ms={name: ns * 1e-6 for name, ns in busy.items()},
        lines=_lines(workload),
        notes=(NOTE, *_pressure(workload, target)),
    )


def overhead_ns(workload: Workload, target: Target) -> float:
    """Time that overlaps with nothing: the launch, and what begins and ends every kernel.

    The first load and the last store have nobody to wait for them but the kernel itself.
    """
    moves = sum(workload.traffic.routes.get(route, 0) > 0 for route in (Route.LOAD, Route.STORE))
    return target["launch_ns"] + moves * target["dma_completion_ns"]


def _pressure(workload: Workload, target: Target) -> tuple[str, ...]:
    """Say so where the estimate is sure to be too low: more is alive than SBUF holds."""
    usable = target.integer("sbuf_partition_bytes") - target.integer("sbuf_reserved_bytes")
    live = workload.sbuf_peak_bytes
    if live is None or live <= usable:
        return ()
    return (
        f"about {live // 1024} KiB of SBUF a partition are alive at line "
        f"{workload.sbuf_peak_line}, {usable // 1024} KiB can be used: spills, which the estimate "
        "leaves out, make the kernel slower",
    )


def _bound(resource: str, busy_ns: float, overhead: float) -> Bound:
    return Bound.LATENCY if busy_ns < overhead else resource_bound(resource)


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
