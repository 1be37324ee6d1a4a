"""Laws that every schedule obeys, whatever the constants are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from attrs import evolve

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import BFLOAT16, FLOAT32
from accelopt_lsp.profiler.simulator.timeline import Schedule, simulate
from accelopt_lsp.profiler.simulator.timeline.critical import critical_path
from accelopt_lsp.profiler.simulator.timeline.stream import COMPUTE_QUEUES
from accelopt_lsp.profiler.simulator.trace import Storage, Trace
from tests.timeline.builder import TRN1, TRN2, Builder, rmsnorm, silu, tiled_matmul

TRACES = {
    "matmul": lambda: (tiled_matmul(512, 512, 1024), TRN1),
    "matmul fp32": lambda: (tiled_matmul(256, 512, 1024, FLOAT32), TRN1),
    "blocked": lambda: (tiled_matmul(1024, 1024, 1024, blocked=True), TRN1),
    "current": lambda: (
        tiled_matmul(512, 512, 1024, dialect=Dialect.CURRENT, target=TRN2),
        TRN2,
    ),
    "silu": lambda: (silu(512, 4096), TRN1),
    "rmsnorm": lambda: (rmsnorm(1024, 1024), TRN1),
    "spilling": lambda: (pressure(60), TRN1),
}


def pressure(tiles: int, kibibytes: int = 4) -> Trace:
    """Compute many tiles, then use all of them again."""
    b = Builder()
    columns = kibibytes * 256
    x, out = b.hbm((tiles * 128, columns)), b.hbm((tiles * 128, columns))
    kept = []
    for i in range(tiles):
        tile = b.tensor((128, columns), site=1)
        b.call(1, "nl.load", into=tile, src=x.rows(i * 128, i * 128 + 128))
        kept.append(b.call(2, "nl.exp", x=tile))
    for i, value in enumerate(kept):
        b.call(3, "nl.store", dst=out.rows(i * 128, i * 128 + 128), value=value)
    return b.trace


@pytest.fixture(params=sorted(TRACES))
def scheduled(request: pytest.FixtureRequest) -> tuple[Trace, Schedule]:
    trace, target = TRACES[request.param]()
    return trace, simulate(trace, target)


def test_latency_covers_every_engine(scheduled):
    _, schedule = scheduled
    for engine, busy in schedule.engine_busy_ns.items():
        assert schedule.latency_ns >= busy, engine


def test_an_engine_runs_one_instruction_at_a_time(scheduled):
    _, schedule = scheduled
    times, stream = schedule.times, schedule.stream
    for queue in range(COMPUTE_QUEUES):
        spans = sorted(
            (times.start[i], times.end[i])
            for i, code in enumerate(stream.codes)
            if stream.ops[code].queue == queue
        )
        for (_, end), (start, _) in pairwise(spans):
            assert start >= end - 1e-6


def test_nobody_reads_before_the_writer_is_done(scheduled):
    _, schedule = scheduled
    times, stream = schedule.times, schedule.stream
    written: dict[tuple[int, ...], float] = {}
    for index, (code, regions) in enumerate(zip(stream.codes, stream.regions, strict=True)):
        op = stream.ops[code]
        for position in op.reads:
            assert times.start[index] >= written.get(regions[position], 0.0) - 1e-6
        for position in op.writes:
            if not op.accumulates:
                written[regions[position]] = times.visible[index]


def test_a_place_is_not_reused_while_it_is_read(scheduled):
    """No tile of a site is overwritten early: never more live tiles than SBUF holds."""
    _, schedule = scheduled
    times, stream = schedule.times, schedule.stream
    alive: dict[int, list[float]] = {}
    for index, regions in enumerate(stream.regions):
        for region in regions:
            if stream.storages[region[0]].buffer == "sbuf":
                span = alive.setdefault(region[0], [times.start[index], times.end[index]])
                span[0] = min(span[0], times.start[index])
                span[1] = max(span[1], times.end[index])
    events = sorted(
        event
        for storage, (start, end) in alive.items()
        for event in (
            (start, stream.storages[storage].partition_bytes),
            (end - 1e-3, -stream.storages[storage].partition_bytes),
        )
    )
    level = peak = 0
    for _, change in events:
        level += change
        peak = max(peak, level)
    assert peak <= schedule.target["sbuf_partition_bytes"]


def test_the_critical_path_adds_up_to_the_latency(scheduled):
    _, schedule = scheduled
    launch = schedule.target["launch_ns"]
    total = sum(critical_path(schedule).by_code.values())
    assert total == pytest.approx(schedule.latency_ns - launch, rel=1e-9)


def test_equal_traces_give_equal_schedules(scheduled):
    trace, schedule = scheduled
    again = simulate(trace, schedule.target)
    assert again.times.start == schedule.times.start


def test_numbering_does_not_matter():
    """Templates and storages may be numbered in any order."""
    trace = tiled_matmul(512, 512, 1024)
    count, size = len(trace.templates), len(trace.storages)
    renumbered = Trace(trace.dialect)
    renumbered.templates = list(reversed(trace.templates))
    order = list(reversed(range(size)))
    renumbered.storages = [evolve(trace.storages[old], id=new) for new, old in enumerate(order)]
    renumbered.records = [
        (count - 1 - code, tuple((size - 1 - r[0], *r[1:]) for r in regions))
        for code, regions in trace.records
    ]
    assert simulate(renumbered, TRN1).latency_ns == simulate(trace, TRN1).latency_ns


@pytest.mark.parametrize("kernel", [silu, rmsnorm])
def test_more_bytes_are_never_faster(kernel):
    latencies = [simulate(kernel(rows, 2048), TRN1).latency_ns for rows in range(128, 1025, 128)]
    assert latencies == sorted(latencies)


def test_independent_work_is_not_slower_than_a_chain():
    chained = simulate(silu(512, 4096), TRN1)
    independent = simulate(silu(512, 4096, chain=False), TRN1)
    assert independent.latency_ns <= chained.latency_ns


def test_wider_types_are_never_faster():
    narrow = simulate(tiled_matmul(512, 512, 1024, BFLOAT16), TRN1)
    wide = simulate(tiled_matmul(512, 512, 1024, FLOAT32), TRN1)
    assert wide.latency_ns > narrow.latency_ns


@pytest.mark.parametrize(("dialect", "target"), [(Dialect.LEGACY, TRN1), (Dialect.CURRENT, TRN2)])
def test_blocking_a_matmul_pays(dialect, target):
    size = (2048, 2048, 2048)
    naive = simulate(tiled_matmul(*size, dialect=dialect, target=target), target)
    blocked = simulate(tiled_matmul(*size, dialect=dialect, target=target, blocked=True), target)
    assert blocked.latency_ns < naive.latency_ns


def test_a_blocked_matmul_comes_close_to_the_array():
    """8192 products of 128x128x512 in bf16 take 213 ns each on the array alone."""
    trace = tiled_matmul(4096, 4096, 4096, blocked=True)
    schedule = simulate(trace, TRN1)
    floor = 8192 * 512 / 2.4
    assert floor < schedule.latency_ns < 1.15 * floor


def test_spills_appear_only_above_capacity():
    fits, too_much = simulate(pressure(30), TRN1), simulate(pressure(60), TRN1)
    assert (fits.spill_save_bytes, fits.spill_reload_bytes) == (0, 0)
    assert too_much.spill_save_bytes > 0
    assert too_much.spill_reload_bytes >= too_much.spill_save_bytes
    assert too_much.sbuf_peak_bytes > 176 * 1024 > fits.sbuf_peak_bytes


def test_spills_grow_with_pressure():
    sizes = [simulate(pressure(tiles), TRN1).spill_save_bytes for tiles in (30, 50, 60, 80)]
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[1]


def test_an_empty_trace_is_no_error():
    schedule = simulate(Trace(Dialect.LEGACY), TRN1)
    assert schedule.engine_busy_ns["tensor"] == 0


def test_storage_without_a_writer_is_no_error():
    b = Builder()
    tile, out = b.tensor((128, 512)), b.hbm((128, 512))
    b.call(1, "nl.store", dst=out, value=tile)
    assert isinstance(b.trace.storages[0], Storage)
    assert simulate(b.trace, TRN1).latency_ns > 0
