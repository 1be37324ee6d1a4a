"""Where the time goes: by resource, by source line, and what every engine waited for."""

from __future__ import annotations

from collections import Counter

from attrs import define

from accelopt_lsp.nki.peak import product_peak
from accelopt_lsp.nki.profile import Bound, EngineUse, IdleGap, LineProfile, Wait
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator.timeline.critical import Path, Waits
from accelopt_lsp.profiler.simulator.timeline.schedule import Schedule
from accelopt_lsp.profiler.simulator.timeline.stream import (
    COMPUTE_QUEUES,
    QUEUE_NAMES,
    Op,
    Queue,
)


def line_profiles(schedule: Schedule, path: Path) -> tuple[LineProfile, ...]:
    """Cost by source line and engine, most expensive on the critical path first.

    Unknown costs are None, and so are all shares of the critical path beside them.
    """
    stream = schedule.stream
    counts = Counter(stream.codes)
    rows: dict[tuple[int, str], list[float]] = {}
    unknown: set[tuple[int, str]] = set()
    for code, count in counts.items():
        op = stream.ops[code]
        row = rows.setdefault((op.line, op.engine_name), [0, 0.0, 0, 0.0])
        if op.unknown:
            unknown.add((op.line, op.engine_name))
        share = op.engines / schedule.target["dma_engines"] if op.engines else 1.0
        row[0] += count
        row[1] += count * op.busy_ns * share
        if op.work.dma is not None:
            row[2] += count * (op.work.dma.hbm_read_bytes + op.work.dma.hbm_write_bytes)
        row[3] += path.by_code.get(code, 0.0)
    lines = [
        LineProfile(
            line=line,
            engine=engine,
            instructions=int(row[0]),
            busy_ms=None if (line, engine) in unknown else row[1] * 1e-6,
            bytes=int(row[2]),
            critical_ms=None if unknown else row[3] * 1e-6,
        )
        for (line, engine), row in rows.items()
    ]
    lines.sort(key=lambda l: (-(l.critical_ms or 0), -(l.busy_ms or 0), l.line, l.engine))
    return tuple(lines)


def bounded_shares(path: Path) -> dict[str, float]:
    """Share of the latency by resource; the shares add up to 1."""
    total = sum(path.by_resource.values())
    if total <= 0:
        return {}
    return {resource.value: max(0.0, ns) / total for resource, ns in path.by_resource.items()}


def idle_gaps(schedule: Schedule, waits: Waits) -> tuple[IdleGap, ...]:
    """Idle time of every engine that the kernel uses by cause, largest first."""
    gaps: dict[tuple[str, Wait, str | None, int | None], list[float]] = {}
    for queue in range(COMPUTE_QUEUES):
        _add_gaps(gaps, QUEUE_NAMES[queue], waits.lines_up[queue], schedule, waits)
    transfers = [index for line_up in waits.lines_up[COMPUTE_QUEUES:] for index in line_up]
    transfers.sort(key=schedule.times.start.__getitem__)
    _add_gaps(gaps, "dma", transfers, schedule, waits)
    found = [
        IdleGap(engine, wait, on, line, sum(parts) * 1e-6, len(parts), max(parts) * 1e-6)
        for (engine, wait, on, line), parts in gaps.items()
    ]
    found.sort(key=lambda g: (-g.total_ms, g.engine, g.wait, g.line or 0))
    return tuple(found)


def _add_gaps(
    gaps: dict[tuple[str, Wait, str | None, int | None], list[float]],
    engine: str,
    indices: list[int],
    schedule: Schedule,
    waits: Waits,
) -> None:
    """Add the gaps between instructions of one engine, in order of their start."""
    if not indices:
        return
    times, stream = schedule.times, schedule.stream
    busy_until = 0.0
    on: str | None
    line: int | None
    for index in indices:
        begin = times.start[index]
        if begin - busy_until > _SHORTEST_NS:
            cause = times.cause[index]
            if cause < 0:
                first = busy_until == 0.0
                wait, on, line = (Wait.LAUNCH if first else Wait.ORDER), None, None
            else:
                op = stream.ops[stream.codes[cause]]
                wait, on, line = waits.kind(cause, index), op.engine_name, op.line
            gaps.setdefault((engine, wait, on, line), []).append(begin - busy_until)
        busy_until = max(busy_until, times.end[index])
    if times.finish - busy_until > _SHORTEST_NS:
        gaps[engine, Wait.END, None, None] = [times.finish - busy_until]


_SHORTEST_NS = 1e-3
"""Shorter gaps are rounding."""


def engine_uses(schedule: Schedule) -> tuple[EngineUse, ...]:
    """Achieved against attainable rate of every engine that the kernel uses."""
    target, latency = schedule.target, schedule.latency_ns
    totals: dict[str, _Total] = {}
    for code, count in Counter(schedule.stream.codes).items():
        op = schedule.stream.ops[code]
        total = totals.setdefault(op.engine_name, _Total())
        total.count += count
        amount, rate = _amount(op, target)
        total.amount += count * amount
        if rate is None or total.best_ns is None:
            total.best_ns = None
        else:
            total.best_ns += count * amount / rate
        if op.work.dma is not None:
            total.pieces += count * op.work.dma.descriptors
    uses = []
    for engine, total in totals.items():
        busy_ns = schedule.engine_busy_ns[engine]
        if busy_ns <= 0 or latency <= 0:
            continue
        # Attainable: what the same mix of data types reaches if each runs at its peak.
        factor = _per_unit(engine, target)
        best = total.amount / total.best_ns if total.best_ns else None
        uses.append(
            EngineUse(
                engine=engine,
                unit=_UNITS.get(engine, "elements/cycle"),
                busy=busy_ns / latency,
                achieved=total.amount / busy_ns * factor,
                attainable=None if best is None else best * factor,
                instructions=total.count,
                mean_bytes=total.amount / total.pieces if total.pieces else None,
            )
        )
    uses.sort(key=lambda use: (-use.busy, use.engine))
    return tuple(uses)


@define(slots=True)
class _Total:
    """What one engine does: ``amount`` in FLOPs, elements or bytes; ``best_ns`` at peak."""

    count: int = 0
    amount: float = 0.0
    best_ns: float | None = 0.0
    pieces: int = 0


_UNITS = {"tensor": "FLOP/s", "dma": "B/s"}


def _per_unit(engine: str, target: Target) -> float:
    """Factor from an amount per ns to the engine's unit."""
    if engine in _UNITS:
        return 1e9
    return 1.0 / target[f"{engine}_clock"]


def _amount(op: Op, target: Target) -> tuple[float, float | None]:
    """Work of one instruction, and the highest rate at which it could be done, per ns.

    Vector, Scalar and GpSimd: one element a partition and cycle, or as many as the engine's data
    path is wide for the data type, or as the instruction's own cycles say, whichever is most.
    Tensor: the peak of its data type.
    """
    work = op.work
    if work.dma is not None:
        rate = target["dma_engines"] * target["dma_engine_rate"]
        return max(work.dma.read_bytes, work.dma.write_bytes), rate
    if op.queue is Queue.TENSOR:
        return work.flops, product_peak(target, work) * 1e-9
    clock = target[f"{op.engine_name}_clock"]
    width = target.get(f"{op.engine_name}_width" + ("_16bit" if work.all_16bit else ""))
    elements = work.partitions * work.elements
    modelled = elements / op.busy_ns if op.busy_ns > 0 else 0.0
    return elements, max((width or target["partitions"]) * clock, modelled)


LATENCY_BOUND_SHARE = 0.5
"""Below this share of the latency no resource can be said to limit a kernel."""


def bound_of(schedule: Schedule) -> Bound | None:
    """The busiest resource, or ``latency`` when even that idles half of the time."""
    if not schedule.stream.codes:
        return None
    engine, busy = max(schedule.engine_busy_ns.items(), key=lambda item: item[1])
    if busy < LATENCY_BOUND_SHARE * schedule.latency_ns:
        return Bound.LATENCY
    return Bound(engine)
