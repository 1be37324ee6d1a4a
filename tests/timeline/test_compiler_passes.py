"""What the legacy compiler adds to a kernel and how it fits it into SBUF."""

from __future__ import annotations

import pytest
from attrs import evolve

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import BFLOAT16
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.profile import Wait
from accelopt_lsp.profiler.simulator.timeline import simulate
from accelopt_lsp.profiler.simulator.timeline.constants import with_identities
from accelopt_lsp.profiler.simulator.timeline.counters import counters
from accelopt_lsp.profiler.simulator.timeline.critical import Waits
from accelopt_lsp.profiler.simulator.timeline.liveness import lifetimes, live_peak
from accelopt_lsp.profiler.simulator.timeline.policy import POLICIES
from accelopt_lsp.profiler.simulator.timeline.schedule import simulate_with
from accelopt_lsp.profiler.simulator.timeline.shifting import with_shifts
from accelopt_lsp.profiler.simulator.timeline.spills import spill
from accelopt_lsp.profiler.simulator.timeline.splitting import split_tiles
from accelopt_lsp.profiler.simulator.timeline.stream import Queue, Stream, stream_of
from accelopt_lsp.profiler.simulator.trace import Trace
from tests.timeline.builder import TRN1, Builder, Tile

KIB = 1024


def names(stream: Stream) -> list[str]:
    return [stream.ops[code].name for code in stream.codes]


def loads(b: Builder, count: int, columns: int) -> tuple[list[Tile], Tile]:
    """``count`` loaded tiles of ``columns`` fp32 values a partition, and an output."""
    x, out = b.hbm((128, count * columns)), b.hbm((128, count * columns))
    tiles = []
    for i in range(count):
        tile = b.call(1, "nl.load", src=x.columns(i * columns, (i + 1) * columns))
        assert tile is not None
        tiles.append(tile)
    return tiles, out


def implied_transposes(dtype, calls: int = 2) -> Trace:
    b = Builder()
    x, y = b.hbm((128, 128), dtype), b.hbm((128, 512), dtype)
    out = b.hbm((128, 512))
    left, right = b.call(1, "nl.load", src=x), b.call(2, "nl.load", src=y)
    for _ in range(calls):
        b.call(3, "nl.matmul", x=left, y=right)
    value = b.call(3, "nl.matmul", x=left, y=right)
    b.call(4, "nl.store", dst=out, value=value)
    return b.trace


def test_implied_transposes_load_one_identity():
    stream = stream_of(implied_transposes(BFLOAT16), TRN1)
    result = with_identities(stream, TRN1)
    assert len(result) == len(stream) + 1
    first = result.ops[result.codes[0]]
    assert first.work.dma is not None
    assert first.work.dma.hbm_read_bytes == 128 * 128 * 2
    identity = result.regions[0][0]
    users = [i for i, regions in enumerate(result.regions) if identity in regions[1:]]
    assert len(users) == 3
    assert {result.ops[result.codes[i]].name for i in users} == {"nc_transpose"}


def test_the_identity_counts_as_read_and_not_as_spilled():
    trace = implied_transposes(BFLOAT16)
    schedule = simulate(trace, TRN1)
    found = counters(schedule, schedule.latency_ns)
    assert found["hbm_read_bytes"] == (128 * 128 + 128 * 512 + 128 * 128) * 2
    assert found["spill_reload_bytes"] == 0


def test_kernels_without_implied_transposes_load_none():
    b = Builder()
    (tile,), out = loads(b, 1, 512)
    b.call(2, "nl.store", dst=out, value=b.call(2, "nl.exp", x=tile))
    stream = stream_of(b.trace, TRN1)
    assert with_identities(stream, TRN1) is stream


def sliced(*, together: bool) -> Trace:
    """A tile written and read in four slices; ``together``: it is stored whole."""
    b = Builder()
    x, out = b.hbm((128, 512)), b.hbm((128, 512))
    source = b.call(1, "nl.load", src=x)
    tile = b.tensor((128, 512), site=7)
    assert source is not None
    for i in range(4):
        span = i * 128, i * 128 + 128
        b.call(2, "nl.exp", into=tile.columns(*span), x=source.columns(*span))
    for i in range(4):
        span = i * 128, i * 128 + 128
        value = b.call(3, "nl.exp", x=tile.columns(*span))
        b.call(4, "nl.store", dst=out.columns(*span), value=value)
    if together:
        b.call(5, "nl.store", dst=out, value=tile)
    return b.trace


@pytest.mark.parametrize("together", [False, True])
def test_independent_parts_of_a_tile_are_tiles_of_their_own(together):
    stream = stream_of(sliced(together=together), TRN1)
    result = split_tiles(stream)
    if together:
        assert result is stream
        return
    pieces = [s for s in result.storages if s.site == 7 and s.partition_bytes == 512]
    assert len(pieces) == 4
    whole = next(s for s in stream.storages if s.site == 7)
    touched = [r for regions in result.regions for r in regions]
    assert all(r[0] != whole.id for r in touched)
    for piece in pieces:
        assert {r[3:] for r in touched if r[0] == piece.id} == {(0, 512)}
    assert names(result) == names(stream)


def room_over_time(stream: Stream) -> int:
    """Bytes per partition times the instructions for which they are kept."""
    lives = lifetimes(stream)
    return sum(
        s.partition_bytes * (lives.last[s.id] - lives.first[s.id])
        for s in stream.storages
        if s.buffer is Buffer.SBUF and lives.first[s.id] >= 0
    )


def test_parts_take_room_only_while_they_are_needed():
    stream = stream_of(sliced(together=False), TRN1)
    result = split_tiles(stream)
    assert room_over_time(result) < room_over_time(stream)
    assert live_peak(result, lifetimes(result), Buffer.SBUF) <= live_peak(
        stream, lifetimes(stream), Buffer.SBUF
    )


def pair(start: int) -> Trace:
    """A product of two tiles on partitions 0 to 64, wanted at ``start``."""
    b = Builder()
    x, out = b.hbm((64, 512)), b.hbm((128, 512))
    left, right = b.call(1, "nl.load", src=x), b.call(2, "nl.load", src=x)
    whole = b.tensor((128, 512), site=9)
    half = b.tensor((64, 512), site=9)
    wanted = evolve(whole, type=half.type, partition=start)
    b.call(3, "nl.multiply", into=wanted, x=left, y=right)
    b.call(4, "nl.store", dst=out.rows(start, start + 64), value=wanted)
    return b.trace


@pytest.mark.parametrize("start", [0, 64])
def test_results_on_other_partitions_take_a_copy(start):
    stream = stream_of(pair(start), TRN1)
    result = with_shifts(stream, TRN1)
    if start == 0:
        assert result is stream
        return
    assert names(result) == ["dma_copy", "dma_copy", "tensor_tensor", "tensor_copy", "dma_copy"]
    made, copied = result.regions[2], result.regions[3]
    assert made[0] == copied[1]
    assert made[0][1:3] == (0, 64)
    assert copied[0][1:3] == (64, 128)
    assert result.ops[result.codes[3]].queue is Queue.SCALAR


def kept(columns: int, count: int, rounds: int) -> Trace:
    """``count`` computed tiles that are all used in every round."""
    b = Builder()
    tiles, out = loads(b, count, columns)
    values = [b.call(2, "nl.exp", x=tile) for tile in tiles]
    for _ in range(rounds):
        for i, value in enumerate(values):
            result = b.call(3, "nl.exp", x=value)
            b.call(4, "nl.store", dst=out.columns(i * columns, (i + 1) * columns), value=result)
    return b.trace


def test_small_tiles_leave_room_for_running_ahead_and_large_ones_fill_it():
    """4 KiB tiles are evicted above 32 - 16 KiB; 28 KiB ones only above all the room."""
    small = stream_of(kept(1024, 8, 3), TRN1)
    assert spill(small, 64 * KIB, 0, TRN1).saved_bytes == 0
    assert spill(small, 64 * KIB, 32 * KIB, TRN1).saved_bytes > 0
    large = stream_of(kept(7 * 1024, 4, 3), TRN1)
    room = 6 * 28 * KIB
    assert spill(large, room, 0, TRN1).saved_bytes == 0
    assert spill(large, room, 27 * KIB, TRN1).saved_bytes == 0
    assert spill(large, room, 29 * KIB, TRN1).saved_bytes > 0


def test_what_is_cheap_to_bring_back_goes_first():
    """A row on one partition is re-loaded rather than a tile on all of them saved."""
    b = Builder()
    x, row, out = b.hbm((128, 2048)), b.hbm((1, 8192)), b.hbm((128, 2048))
    weights = b.call(1, "nl.load", src=row)
    assert weights is not None
    values = [b.call(2, "nl.exp", x=b.call(2, "nl.load", src=x)) for _ in range(5)]
    for value in values:
        b.call(3, "nl.store", dst=out, value=value)
    b.call(4, "nl.exp", x=weights)
    stream = stream_of(b.trace, TRN1)
    result = spill(stream, 48 * KIB, 0, TRN1)
    assert result.saved_bytes == 0
    again = [
        result.stream.ops[code].work.dma.read_bytes
        for code in result.stream.codes
        if result.stream.ops[code].name == "reload"
    ]
    assert again == [8192 * 4]


def test_a_reload_is_issued_by_the_engine_that_needs_it():
    """With a narrower window, re-loads come later and their latency shows."""
    trace = kept(1024, 60, 3)
    policy = POLICIES[Dialect.LEGACY]
    wide = simulate_with(trace, TRN1, policy)
    queues = {
        wide.stream.ops[code].queue
        for code in wide.stream.codes
        if wide.stream.ops[code].name == "spill_reload"
    }
    assert queues == {Queue.RELOAD}
    early = simulate_with(trace, TRN1, evolve(policy, late_reloads=False))
    assert Queue.RELOAD not in {early.stream.ops[code].queue for code in early.stream.codes}
    narrow = simulate_with(trace, TRN1, evolve(policy, window=2))
    assert narrow.latency_ns > wide.latency_ns
    times, stream = narrow.times, narrow.stream
    issued = [times.start[i] for i, code in enumerate(stream.codes) if stream.ops[code].queue < 4]
    done = 0
    for index, code in enumerate(stream.codes):
        op = stream.ops[code]
        if op.queue < 4:
            done += 1
        elif op.queue is Queue.RELOAD and done >= 2:
            assert times.trigger[index] >= max(issued[: done - 1][-1:])


def test_a_reload_that_waits_for_its_turn_waits_for_no_room():
    policy = evolve(POLICIES[Dialect.LEGACY], window=2)
    schedule = simulate_with(kept(1024, 60, 3), TRN1, policy)
    waits = Waits(schedule)
    turned = [
        (index, cause)
        for index, before in schedule.edges.turns.items()
        if (cause := schedule.times.cause[index]) in before
    ]
    assert turned
    assert {waits.kind(cause, index) for index, cause in turned} == {Wait.ORDER}
    ops, codes = schedule.stream.ops, schedule.stream.codes
    assert {ops[codes[index]].queue for index in schedule.edges.turns} == {Queue.RELOAD}


def test_current_kernels_may_fill_all_of_sbuf():
    """168 KiB of tiles that live at once: over the legacy limit, below SBUF's size."""

    def spilled(dialect: Dialect) -> int:
        b = Builder(dialect)
        x = b.hbm((128, 42 * 1024))
        out = b.hbm((128, 42 * 1024))
        tiles = []
        for i in range(42):
            tile = b.tensor((128, 1024), site=1)
            part = x.columns(i * 1024, (i + 1) * 1024)
            b.call(1, "nisa.dma_copy", dst=tile, src=part)
            other = b.tensor((128, 1024), site=2)
            if dialect is Dialect.CURRENT:
                b.call(2, "nisa.activation", dst=other, op="exp", data=tile)
            else:
                b.call(2, "nisa.activation", into=other, op="exp", data=tile)
            tiles.append(other)
        for i, tile in enumerate(tiles):
            part = out.columns(i * 1024, (i + 1) * 1024)
            b.call(3, "nisa.dma_copy", dst=part, src=tile)
        return simulate(b.trace, TRN1).spill_save_bytes

    assert spilled(Dialect.LEGACY) > 0
    assert spilled(Dialect.CURRENT) == 0
