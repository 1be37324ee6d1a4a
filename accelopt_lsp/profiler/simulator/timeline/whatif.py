"""What-ifs: the same instructions in the same order, scheduled again with one thing changed.

Each says how much the kernel could gain at most if that one thing were no obstacle. Nothing is
merged, placed or spilled anew.

Engines that may reorder take the oldest instruction that is ready, and such a schedule can get a
little longer when instructions get shorter (Graham's anomaly). The kernel as it is remains
possible, so a latency never counts as longer than without the change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from attrs import evolve, field, frozen

from accelopt_lsp.nki.peak import product_peak
from accelopt_lsp.nki.profile import WhatIf
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator.timeline.schedule import Schedule, retime, uncollected
from accelopt_lsp.profiler.simulator.timeline.stream import COMPUTE_QUEUES, Op, Queue, Stream
from accelopt_lsp.profiler.simulator.trace import Region

MOST_LOADS = 3
"""Load lines that are tried: those whose repeated transfers take longest."""
Progress = Callable[[str, float], object]
"""Called with what is being tried and the share that is done."""


@frozen(slots=True)
class Change:
    """One thing to change.

    Attributes:
        name: as in :class:`~accelopt_lsp.nki.profile.WhatIf`.
        op: the op as it would be; None leaves all as they are.
        line: source line of the load that is hoisted.
        constants: constants of the target as they would be.
        buffers: tiles wait for the place that they take.
    """

    name: str
    op: Callable[[Op, Target], Op] | None = None
    line: int | None = None
    constants: dict[str, float] = field(factory=dict)
    buffers: bool = True


def _free(op: Op, target: Target) -> Op:
    return evolve(op, busy_ns=0.0, latency_ns=0.0, absent=True)


def _dma_free(op: Op, target: Target) -> Op:
    return _free(op, target) if op.queue >= COMPUTE_QUEUES else op


def _vector_scalar_free(op: Op, target: Target) -> Op:
    return _free(op, target) if op.queue in (Queue.VECTOR, Queue.SCALAR) else op


def _tensor_only_ns(schedule: Schedule) -> float:
    """Launch, and all products one after another at the peak of their data type."""
    total = schedule.target["launch_ns"]
    for code, count in Counter(schedule.stream.codes).items():
        op = schedule.stream.ops[code]
        if op.queue is Queue.TENSOR:
            peak = product_peak(schedule.target, op.work) * 1e-9
            total += count * min(op.busy_ns, op.work.flops / peak)
    return total


def _no_spills(op: Op, target: Target) -> Op:
    return _free(op, target) if op.issue is None and op.queue >= COMPUTE_QUEUES else op


def changes(schedule: Schedule) -> Iterator[Change]:
    """The changes that can make a difference to a kernel."""
    queues = {op.queue for op in map(schedule.stream.ops.__getitem__, set(schedule.stream.codes))}
    if any(queue >= COMPUTE_QUEUES for queue in queues):
        yield Change("dma_free", _dma_free)
    if Queue.TENSOR in queues:
        yield Change("tensor_only")
    if queues & {Queue.VECTOR, Queue.SCALAR}:
        yield Change("vector_scalar_free", _vector_scalar_free)
    if any(_no_spills(op, schedule.target) is not op for op in _used(schedule)):
        yield Change("no_spills", _no_spills)
    yield Change("unlimited_buffers", buffers=False)
    yield Change("launch_free", constants={"launch_ns": 0.0})
    for line in repeated_loads(schedule)[:MOST_LOADS]:
        yield Change("load_hoisted", line=line)


def _used(schedule: Schedule) -> Iterable[Op]:
    return (schedule.stream.ops[code] for code in set(schedule.stream.codes))


def what_ifs(schedule: Schedule, progress: Progress | None = None) -> tuple[WhatIf, ...]:
    """Try every change, the one that gains most first. Each costs one more schedule."""
    wanted = list(changes(schedule))
    found = []
    for number, change in enumerate(wanted):
        if progress is not None:
            place = "" if change.line is None else f" (line {change.line})"
            progress(f"what if {change.name.replace('_', ' ')}{place}", number / len(wanted))
        found.append(what_if(schedule, change))
    found.sort(key=lambda w: (w.latency_ms, w.change, w.line or 0))
    return tuple(found)


def what_if(schedule: Schedule, change: Change) -> WhatIf:
    """Latency of a schedule with one thing changed."""
    if change.name == "tensor_only":
        return _what_if(schedule, change, _tensor_only_ns(schedule))
    target = schedule.target
    if change.constants:
        target = target.with_constants(change.constants)
    stream = schedule.stream
    if change.line is not None:
        stream = _hoisted(stream, change.line, target)
    elif change.op is not None:
        ops = [change.op(op, schedule.target) for op in stream.ops]
        stream = Stream(ops, stream.storages, stream.codes, stream.regions)
    with uncollected():
        finish = retime(schedule, stream, target, buffers=change.buffers).finish
    return _what_if(schedule, change, finish)


def _what_if(schedule: Schedule, change: Change, finish: float) -> WhatIf:
    finish = min(finish, schedule.latency_ns)
    return WhatIf(
        change=change.name,
        line=change.line,
        latency_ms=finish * 1e-6,
        speedup=schedule.latency_ns / finish if finish > 0 else 1.0,
    )


def repeated_loads(schedule: Schedule) -> list[int]:
    """Lines that load something again which they loaded before, most expensive first."""
    stream = schedule.stream
    seen: set[tuple[int, Region]] = set()
    again: dict[int, float] = {}
    loads = {code: op for code, op in enumerate(stream.ops) if _is_load(op)}
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        op = loads.get(code)
        if op is None:
            continue
        key = (op.line, regions[op.reads[0]])
        if key in seen:
            again[op.line] = again.get(op.line, 0.0) + op.busy_ns * op.engines
        seen.add(key)
    return sorted(again, key=lambda line: (-again[line], line))


def _is_load(op: Op) -> bool:
    return op.queue is Queue.LOAD and op.issue is not None and bool(op.reads)


def _hoisted(stream: Stream, line: int, target: Target) -> Stream:
    """What a line loads again is there already."""
    ops = list(stream.ops)
    loads = {code: op for code, op in enumerate(stream.ops) if op.line == line and _is_load(op)}
    again: dict[int, int] = {}
    for code, op in loads.items():
        again[code] = len(ops)
        ops.append(_free(op, target))
    seen: set[Region] = set()
    codes = []
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        load = loads.get(code)
        if load is not None:
            region = regions[load.reads[0]]
            if region in seen:
                code = again[code]
            seen.add(region)
        codes.append(code)
    return Stream(ops, stream.storages, codes, stream.regions)
