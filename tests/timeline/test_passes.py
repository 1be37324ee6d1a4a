"""Each pass of the timeline on its own."""

from __future__ import annotations

import pytest
from attrs import evolve

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator.timeline import simulate
from accelopt_lsp.profiler.simulator.timeline.dma import NEVER, DmaEngines
from accelopt_lsp.profiler.simulator.timeline.liveness import lifetimes
from accelopt_lsp.profiler.simulator.timeline.merging import merge
from accelopt_lsp.profiler.simulator.timeline.placement import forward_broadcasts
from accelopt_lsp.profiler.simulator.timeline.policy import POLICIES
from accelopt_lsp.profiler.simulator.timeline.schedule import simulate_with
from accelopt_lsp.profiler.simulator.timeline.stream import stream_of
from accelopt_lsp.profiler.simulator.trace import Trace
from tests.timeline.builder import TRN1, TRN2, Builder, tiled_matmul

CAPACITY = 176 * 1024


def drain(engines: DmaEngines) -> dict[int, float]:
    ends: dict[int, float] = {}
    while engines.next_event != NEVER:
        now = engines.next_event
        for index in engines.advance(now)[0]:
            ends[index] = now
    return ends


def test_transfers_of_one_queue_follow_each_other():
    engines = DmaEngines(2, 16)
    engines.trigger(0, 0.0, 0, 100.0, 16)
    engines.trigger(0, 0.0, 1, 100.0, 16)
    assert drain(engines) == {0: 100.0, 1: 200.0}


def test_transfers_of_two_queues_share_the_engines():
    engines = DmaEngines(2, 16)
    engines.trigger(0, 0.0, 0, 100.0, 16)
    engines.trigger(1, 0.0, 1, 50.0, 16)
    assert drain(engines) == {0: 150.0, 1: 100.0}


def test_narrow_transfers_leave_room_for_the_next():
    engines = DmaEngines(1, 16)
    engines.trigger(0, 0.0, 0, 100.0, 8)
    engines.trigger(0, 0.0, 1, 100.0, 8)
    engines.trigger(0, 0.0, 2, 100.0, 8)
    assert drain(engines) == {0: 100.0, 1: 100.0, 2: 200.0}


def test_equal_loads_and_what_follows_from_them_merge():
    b = Builder()
    x, out = b.hbm((128, 512)), b.hbm((128, 1024))
    for step in range(2):
        tile = b.call(1, "nl.load", src=x)
        value = b.call(2, "nl.exp", x=tile)
        b.call(3, "nl.store", dst=out.columns(step * 512, step * 512 + 512), value=value)
    merged = merge(stream_of(b.trace, TRN1), CAPACITY)
    assert merged.dropped == 2
    assert len(merged.stream) == 4


def test_a_store_in_between_keeps_loads_apart():
    b = Builder()
    x, out = b.hbm((128, 512)), b.hbm((128, 512))
    for _ in range(2):
        tile = b.call(1, "nl.load", src=x)
        b.call(2, "nl.store", dst=out, value=tile)
        b.call(3, "nl.store", dst=x, value=tile)
    assert merge(stream_of(b.trace, TRN1), CAPACITY).dropped == 0


def test_true_products_never_merge():
    trace = tiled_matmul(128, 128, 512)
    doubled = Trace(trace.dialect, trace.templates, list(trace.storages), list(trace.records))
    size = len(trace.storages)
    doubled.storages += [evolve(s, id=s.id + size) for s in trace.storages]
    doubled.records += [
        (code, tuple((r[0] + size if r[0] > 2 else r[0], *r[1:]) for r in regions))
        for code, regions in trace.records
    ]
    stream = merge(stream_of(doubled, TRN1), CAPACITY).stream
    names = [stream.ops[code].name for code in stream.codes]
    assert names.count("nc_matmul") == 2
    assert names.count("dma_copy") == 2 + 2


def test_loads_that_do_not_fit_do_not_merge():
    """A right operand of 256 KiB a partition is loaded again for every row of tiles."""
    stream = stream_of(tiled_matmul(256, 4096, 4096), TRN1)
    reads = sum(
        stream.ops[code].work.dma.hbm_read_bytes
        for code in stream.codes
        if stream.ops[code].work.dma is not None
    )
    kept = merge(stream, CAPACITY).stream
    after = sum(
        kept.ops[code].work.dma.hbm_read_bytes
        for code in kept.codes
        if kept.ops[code].work.dma is not None
    )
    left, right = 4096 * 256 * 2, 4096 * 4096 * 2
    assert reads == 8 * left + 2 * right
    assert after == left + 2 * right


def _scaled(columns: int) -> Trace:
    b = Builder()
    x, row, out = b.hbm((128, columns)), b.hbm((1, columns)), b.hbm((128, columns))
    tile, weights = b.call(1, "nl.load", src=x), b.call(2, "nl.load", src=row)
    b.call(4, "nl.store", dst=out, value=b.call(3, "nl.multiply", x=tile, y=weights))
    return b.trace


@pytest.mark.parametrize(("columns", "copies"), [(512, 0), (1024, 2)])
def test_a_broadcast_row_of_one_bank_is_read_from_psum(columns, copies):
    stream = forward_broadcasts(stream_of(_scaled(columns), TRN1), TRN1)
    names = [stream.ops[code].name for code in stream.codes]
    assert names.count("tensor_copy") == copies
    if not copies:
        product = next(
            op for op in stream.ops if op.name == "tensor_tensor" and op.work.psum_inputs
        )
        assert product.work.sbuf_inputs == 1


def test_every_instruction_runs_once_under_any_window():
    trace = tiled_matmul(256, 512, 1024)
    for window in (0, 1, 4, 64):
        policy = evolve(POLICIES[Dialect.LEGACY], window=window)
        schedule = simulate_with(trace, TRN1, policy)
        assert min(schedule.times.visible) > 0


def test_large_loaded_tensors_are_streamed():
    """A tensor that takes most of SBUF, among tiles that fill the rest, is not kept."""
    b = Builder()
    x, out = b.hbm((128 * 45, 1024)), b.hbm((128, 1024))
    tiles = []
    for i in range(40):
        tile = b.tensor((128, 1024), site=1)
        b.call(1, "nl.load", into=tile, src=x.rows(i * 128, i * 128 + 128))
        tiles.append(tile)
    kept = [b.call(2, "nl.exp", x=tile) for tile in tiles[:20]]
    for _ in range(2):
        for tile in tiles:
            b.call(3, "nl.exp", x=tile)
    for value in kept:
        b.call(4, "nl.store", dst=out, value=value)
    schedule = simulate(b.trace, TRN1)
    reloads = [code for code in schedule.stream.codes if schedule.stream.ops[code].name == "reload"]
    assert len(reloads) >= 80
    assert schedule.spill_save_bytes == 0


def test_current_kernels_load_at_each_use_what_does_not_fit():
    """As in step 4 of AWS's kernel-optimization: 256 KiB a partition, used twice."""
    b = Builder(Dialect.CURRENT, TRN2)
    x = b.hbm((128 * 64, 1024))
    tiles = []
    for i in range(64):
        tile = b.tensor((128, 1024), site=1)
        b.call(1, "nisa.dma_copy", dst=tile, src=x.rows(i * 128, i * 128 + 128))
        tiles.append(tile)
    for _ in range(2):
        for tile in tiles:
            result = b.tensor((128, 1024), site=2)
            b.call(2, "nisa.activation", dst=result, op="exp", data=tile)
    schedule = simulate(b.trace, TRN2)
    loaded = [
        work.dma.hbm_read_bytes
        for code in schedule.stream.codes
        if (work := schedule.stream.ops[code].work).dma is not None
    ]
    assert sum(loaded) == 2 * x.type.nbytes
    assert schedule.spill_save_bytes == 0
    whole = simulate_with(b.trace, TRN2, evolve(POLICIES[Dialect.CURRENT], streams=False))
    assert whole.latency_ns > schedule.latency_ns


def test_unrolled_tiles_share_places():
    """Without an nl loop there are two places more than live tiles; with one, several a site."""

    def kernel(depth: int) -> Trace:
        b = Builder()
        x, out = b.hbm((128 * 32, 512)), b.hbm((128 * 32, 512))
        for i in range(32):
            tile = b.tensor((128, 512), site=1)
            b.call(1, "nl.load", into=tile, src=x.rows(i * 128, i * 128 + 128))
            value = b.tensor((128, 512), site=2)
            b.call(2, "nl.exp", into=value, x=tile)
            b.call(3, "nl.store", dst=out.rows(i * 128, i * 128 + 128), value=value)
        b.trace.storages = [evolve(s, loop_depth=depth) for s in b.trace.storages]
        return b.trace

    assert simulate(kernel(1), TRN1).latency_ns < simulate(kernel(0), TRN1).latency_ns


def test_lifetimes_span_all_accesses():
    b = Builder()
    x, out = b.hbm((128, 512)), b.hbm((128, 512))
    tile = b.call(1, "nl.load", src=x)
    b.call(2, "nl.exp", x=tile)
    b.call(3, "nl.store", dst=out, value=tile)
    lives = lifetimes(stream_of(b.trace, TRN1))
    assert (lives.first[tile.storage], lives.last[tile.storage]) == (0, 2)
    assert b.trace.storages[tile.storage].buffer is Buffer.SBUF
