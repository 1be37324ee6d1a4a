"""``simulate``: passes over the issued stream, then the event loop."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define, evolve, field

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator.timeline.constants import with_identities
from accelopt_lsp.profiler.simulator.timeline.dependencies import Edges, dependencies
from accelopt_lsp.profiler.simulator.timeline.fusing import fuse_loops
from accelopt_lsp.profiler.simulator.timeline.liveness import (
    lifetimes,
    live_peak,
    sbuf_capacity,
)
from accelopt_lsp.profiler.simulator.timeline.merging import merge
from accelopt_lsp.profiler.simulator.timeline.placement import forward_broadcasts, keep_in_psum
from accelopt_lsp.profiler.simulator.timeline.policy import POLICIES, Policy
from accelopt_lsp.profiler.simulator.timeline.scheduler import Times, schedule
from accelopt_lsp.profiler.simulator.timeline.shifting import with_shifts
from accelopt_lsp.profiler.simulator.timeline.slots import Slots, assign_slots
from accelopt_lsp.profiler.simulator.timeline.spills import spill
from accelopt_lsp.profiler.simulator.timeline.splitting import split_tiles
from accelopt_lsp.profiler.simulator.timeline.stream import (
    COMPUTE_QUEUES,
    Stream,
    recosted,
    stream_of,
)
from accelopt_lsp.profiler.simulator.timeline.streaming import stream_large
from accelopt_lsp.profiler.simulator.trace import Trace


@define(slots=True)
class Schedule:
    """One simulated run.

    Attributes:
        target: hardware generation.
        stream: executed instructions.
        times: when each of them ran, in ns.
        edges: what waits for what.
        policy: rules that the passes followed.
        merged: issued instructions that the compiler does only once and therefore dropped.
        spill_save_bytes, spill_reload_bytes: spill traffic in bytes.
        sbuf_peak_bytes: largest number of bytes per partition alive at once, before spilling.
        psum_overflows: tiles that found all PSUM banks in use.
        unknown: instructions without a cost, with their number.
        engine_busy_ns: occupied time by engine; ``dma`` counts the transfers as if each used
            all DMA engines.
        notes: remarks for people.
    """

    target: Target
    stream: Stream
    times: Times
    edges: Edges
    policy: Policy
    merged: int = 0
    spill_save_bytes: int = 0
    spill_reload_bytes: int = 0
    sbuf_peak_bytes: int = 0
    psum_overflows: int = 0
    unknown: dict[str, int] = field(factory=dict)
    engine_busy_ns: dict[str, float] = field(factory=dict)
    notes: list[str] = field(factory=list)

    @property
    def latency_ns(self) -> float:
        """From the launch to the end of the last transfer, whether or not costs are known."""
        return self.times.finish


def simulate(trace: Trace, target: Target) -> Schedule:
    """Schedule a trace on one NeuronCore of ``target`` by its dialect's policy.

    Never raises on odd traces: what has no known cost takes no time and is listed in
    :attr:`Schedule.unknown`.
    """
    return simulate_with(trace, target, POLICIES[trace.dialect])


def simulate_with(trace: Trace, target: Target, policy: Policy) -> Schedule:
    """As :func:`simulate`, under a given policy."""
    with uncollected():
        return _simulate(trace, target, policy)


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for cycles of garbage: passes make millions of small objects and no cycles."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _simulate(trace: Trace, target: Target, policy: Policy) -> Schedule:
    stream = stream_of(trace, target)
    capacity = sbuf_capacity(target)
    room = capacity - policy.spare_bytes
    notes: list[str] = []
    merged = saved = reloaded = 0
    streamed: int | None = None
    lives = lifetimes(stream)
    overflows = live_peak(stream, lives, Buffer.SBUF) > capacity
    if policy.fuses and overflows:
        fused = fuse_loops(stream, trace)
        if fused is not stream:
            stream, lives = fused, lifetimes(fused)
            overflows = live_peak(stream, lives, Buffer.SBUF) > capacity
    if policy.streams and overflows:
        stream, streamed = stream_large(stream, lives, room, target)
    if policy.merges and streamed is None:
        result = merge(stream, capacity)
        stream, merged = result.stream, result.dropped
    if policy.shifts:
        stream = with_shifts(stream, target)
    if policy.constants:
        stream = with_identities(stream, target)
    if policy.splits:
        stream = split_tiles(stream)
    if policy.uses_psum:
        stream = forward_broadcasts(stream, target)
        keep_in_psum(stream, target)
    lives = lifetimes(stream)
    peak = live_peak(stream, lives, Buffer.SBUF)
    # The legacy compiler keeps room free in any case; what a current kernel's writer placed stays
    # where it is as long as it fits.
    if peak > (room if policy.merges else capacity):
        spilled = spill(
            stream, capacity, policy.spare_bytes, target, late_reloads=policy.late_reloads
        )
        stream, saved, reloaded = spilled.stream, spilled.saved_bytes, spilled.reloaded_bytes
        lives = lifetimes(stream)
        if spilled.overflows:
            notes.append("a single instruction needs more SBUF than there is")
    slots = assign_slots(stream, lives, policy, target, streamed)
    if slots.overflows:
        notes.append(f"{slots.overflows} PSUM tiles found all banks in use")
    edges = dependencies(stream, slots, policy.window)
    times = schedule(stream, edges, policy, target)
    return Schedule(
        target=target,
        stream=stream,
        times=times,
        edges=edges,
        policy=policy,
        merged=merged,
        spill_save_bytes=saved,
        spill_reload_bytes=reloaded,
        sbuf_peak_bytes=peak,
        psum_overflows=slots.overflows,
        unknown=_unknown(stream),
        engine_busy_ns=_busy(stream, times, target),
        notes=notes,
    )


def retime(scheduled: Schedule, stream: Stream, target: Target, *, buffers: bool = True) -> Times:
    """Run the instructions of a schedule again, at other costs.

    Args:
        scheduled: result of :func:`simulate`.
        stream: its stream with other ops; the instructions and their order are the same.
        target: its target with other constants.
        buffers: tiles wait for the place that they take; otherwise there is always room.
    """
    edges = scheduled.edges
    if not buffers:
        edges = dependencies(stream, Slots(), scheduled.policy.window)
    return schedule(stream, edges, scheduled.policy, target)


def retarget(scheduled: Schedule, target: Target) -> Schedule:
    """A schedule with other costs of instructions, on the same memories.

    Only sizes of memories decide what is merged, spilled and placed; so with other costs the same
    instructions run in other times, and a fraction of the work finds them.
    """
    old = scheduled.stream
    stream = Stream([recosted(op, target) for op in old.ops], old.storages, old.codes, old.regions)
    with uncollected():
        times = retime(scheduled, stream, target)
    return evolve(
        scheduled,
        target=target,
        stream=stream,
        times=times,
        engine_busy_ns=_busy(stream, times, target),
    )


def _unknown(stream: Stream) -> dict[str, int]:
    counts = Counter(stream.codes)
    found: dict[str, int] = {}
    for code, count in counts.items():
        op = stream.ops[code]
        if op.unknown:
            found[op.name] = found.get(op.name, 0) + count
    return found


def _busy(stream: Stream, times: Times, target: Target) -> dict[str, float]:
    """Occupied time by engine. Triggering stores takes GpSimd's time."""
    engines = target["dma_engines"]
    busy = dict.fromkeys(("tensor", "vector", "scalar", "gpsimd", "dma"), 0.0)
    for code, count in Counter(stream.codes).items():
        op = stream.ops[code]
        share = op.engines / engines if op.queue >= COMPUTE_QUEUES else 1.0
        busy[op.engine_name] += count * op.busy_ns * share
    busy["tensor"] += times.throttled_ns + times.exposed_ns
    return busy
