"""Where the time goes: by source line, and along the critical path."""

from __future__ import annotations

from collections import Counter

from accelopt_lsp.nki.profile import Bound, LineProfile
from accelopt_lsp.profiler.simulator.timeline.schedule import Schedule


def critical_ns(schedule: Schedule) -> dict[int, float]:
    """Time on the critical path by op code.

    Walks back from the last event along what each instruction waited for last. The time
    between two starts belongs to the earlier instruction.
    """
    times, codes = schedule.times, schedule.stream.codes
    shares: dict[int, float] = {}
    if not codes:
        return shares
    index = max(range(len(codes)), key=times.visible.__getitem__)
    moment = times.finish
    steps = 0
    while index >= 0 and steps <= len(codes):
        shares[codes[index]] = shares.get(codes[index], 0.0) + moment - times.since[index]
        moment = times.since[index]
        index = times.cause[index]
        steps += 1
    return shares


def line_profiles(schedule: Schedule) -> tuple[LineProfile, ...]:
    """Cost by source line and engine, most expensive on the critical path first."""
    stream = schedule.stream
    counts = Counter(stream.codes)
    critical = critical_ns(schedule)
    rows: dict[tuple[int, str], list[float]] = {}
    for code, count in counts.items():
        op = stream.ops[code]
        row = rows.setdefault((op.line, op.engine_name), [0, 0.0, 0, 0.0])
        share = op.engines / schedule.target["dma_engines"] if op.engines else 1.0
        row[0] += count
        row[1] += count * op.busy_ns * share
        if op.work.dma is not None:
            row[2] += count * (op.work.dma.hbm_read_bytes + op.work.dma.hbm_write_bytes)
        row[3] += critical.get(code, 0.0)
    lines = [
        LineProfile(
            line=line,
            engine=engine,
            instructions=int(row[0]),
            busy_ms=row[1] * 1e-6,
            bytes=int(row[2]),
            critical_ms=row[3] * 1e-6,
        )
        for (line, engine), row in rows.items()
    ]
    lines.sort(key=lambda l: (-l.critical_ms, -l.busy_ms, l.line, l.engine))
    return tuple(lines)


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
