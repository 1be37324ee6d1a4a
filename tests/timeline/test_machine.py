"""Shared ports, the clock of the Tensor Engine, stationary operands, descriptors."""

from __future__ import annotations

from itertools import pairwise

import pytest
from attrs import evolve

from accelopt_lsp.nki.costs import stationary_load_ns
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import BFLOAT16, FLOAT32
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.simulator.timeline import Schedule
from accelopt_lsp.profiler.simulator.timeline.policy import POLICIES
from accelopt_lsp.profiler.simulator.timeline.schedule import simulate_with
from accelopt_lsp.profiler.simulator.timeline.stream import Queue
from accelopt_lsp.profiler.simulator.timeline.throttling import TensorClock
from tests.timeline.builder import TRN1, TRN2, Builder

TRN3 = get_target("trn3")
TARGETS = {"trn1": TRN1, "trn2": TRN2, "trn3": TRN3}


def run(b: Builder, **rules: bool) -> Schedule:
    return simulate_with(b.trace, b.target, evolve(POLICIES[b.dialect], **rules))


def spans(schedule: Schedule, queue: Queue) -> list[tuple[float, float]]:
    """Start and end of what ran on a queue, in order of time."""
    times = schedule.times
    return sorted(
        (times.start[i], times.end[i])
        for i, code in enumerate(schedule.stream.codes)
        if schedule.stream.ops[code].queue is queue
    )


def overlap(schedule: Schedule, first: Queue, second: Queue) -> float:
    """Time that both are busy, in ns."""
    return sum(
        max(0.0, min(end, other_end) - max(start, other_start))
        for start, end in spans(schedule, first)
        for other_start, other_end in spans(schedule, second)
    )


def side_by_side(target: str, second: str, where: Buffer, dtype=FLOAT32) -> Builder:
    """Independent copies on Vector and on another engine, from one kind of memory."""
    b = Builder(Dialect.CURRENT, TARGETS[target])
    for _ in range(4):
        for engine in ("vector", second):
            source = b.tensor((128, 512), dtype, where)
            into = b.tensor((128, 512), dtype)
            b.call(1, "nisa.tensor_copy", dst=into, src=source, engine=engine)
    return b


@pytest.mark.parametrize(
    ("target", "second", "where", "dtype", "exclusive"),
    [
        ("trn1", "gpsimd", Buffer.SBUF, FLOAT32, True),
        ("trn1", "scalar", Buffer.PSUM, FLOAT32, True),
        ("trn1", "scalar", Buffer.SBUF, FLOAT32, False),
        ("trn2", "scalar", Buffer.PSUM, FLOAT32, False),
        ("trn3", "scalar", Buffer.PSUM, FLOAT32, False),
        ("trn2", "gpsimd", Buffer.SBUF, BFLOAT16, True),
        ("trn3", "gpsimd", Buffer.SBUF, BFLOAT16, True),
    ],
)
def test_engines_that_share_a_port_take_turns(target, second, where, dtype, exclusive):
    b = side_by_side(target, second, where, dtype)
    other = Queue[second.upper()]
    common = overlap(run(b), Queue.VECTOR, other)
    assert (common == 0) == exclusive
    free = run(b, excludes=False)
    assert overlap(free, Queue.VECTOR, other) > 0
    assert (run(b).latency_ns > free.latency_ns) == exclusive


def test_instructions_outside_performance_modes_run_beside_gpsimd():
    """On Trainium 2 a sum of two fp32 tiles has no performance mode."""
    b = Builder(Dialect.CURRENT, TRN2)
    for engine in ("vector", "gpsimd"):
        tiles = [b.tensor((128, 512)) for _ in range(3)]
        operands = {"dst": tiles[0], "data1": tiles[1], "data2": tiles[2]}
        b.call(1, "nisa.tensor_tensor", **operands, op="add", engine=engine)
    assert overlap(run(b), Queue.VECTOR, Queue.GPSIMD) > 0


def test_whoever_comes_first_in_the_program_gets_the_port_first():
    """Neither engine starves: copies from PSUM alternate as they are written."""
    schedule = run(side_by_side("trn1", "scalar", Buffer.PSUM))
    starts = schedule.times.start
    assert all(a < b for a, b in pairwise(starts))


WINDOW, HALF = TRN2["pe_warmup_ns"], TRN2["pe_warmup_share"]


class TestClock:
    """Half the rate until a window was at least half busy."""

    def ends(self, gaps: list[float], work: float = 500.0) -> list[float]:
        """How long each instruction takes, with these gaps before them."""
        clock, now, taken = TensorClock.of(TRN2), 0.0, []
        for gap in gaps:
            start = now + gap
            now = clock.run(start, work)
            taken.append(now - start)
        return taken

    def test_trainium_1_does_not_throttle(self):
        assert TensorClock.of(TRN1) is None

    def test_a_dense_stream_warms_up_within_one_window(self):
        taken = self.ends([0.0] * 20)
        assert taken[:3] == [500 / HALF] * 3
        assert taken[3:] == [500.0] * 17

    def test_a_stream_that_is_idle_most_of_the_time_stays_slow(self):
        taken = self.ends([0.0] + [2500.0] * 20)
        assert taken == [500 / HALF] * 21

    def test_more_than_half_busy_stays_fast(self):
        taken = self.ends([0.0] * 10 + [400.0] * 20)
        assert taken[-20:] == pytest.approx([500.0] * 20)

    def test_a_pause_cools_it_down(self):
        taken = self.ends([0.0] * 10 + [3 * WINDOW] + [0.0] * 5)
        assert taken[9:14] == pytest.approx([500.0] + [500 / HALF] * 3 + [500.0])

    def test_a_window_that_ends_within_an_instruction_splits_it(self):
        """4000 ns of work: 1500 in the first window at half rate, the rest at full rate."""
        assert self.ends([0.0], 4000.0) == pytest.approx([WINDOW + 4000 - WINDOW * HALF])


def products(target: str, count: int, *, waits: bool = False) -> Builder:
    """Products of 512 columns; with ``waits`` each needs a sum that takes longer than itself."""
    b = Builder(Dialect.CURRENT, TARGETS[target])
    left, right = b.tensor((128, 128), BFLOAT16), b.tensor((128, 512), BFLOAT16)
    other = b.tensor((128, 1024))
    for _ in range(count):
        if waits:
            b.call(2, "nisa.tensor_tensor", dst=other, data1=other, data2=other, op="add")
            b.call(3, "nisa.tensor_copy", dst=left, src=other.columns(0, 128), engine="vector")
        psum = b.tensor((128, 512), FLOAT32, Buffer.PSUM)
        b.call(1, "nisa.nc_matmul", dst=psum, stationary=left, moving=right)
    return b


@pytest.mark.parametrize(("target", "throttles"), [("trn1", False), ("trn2", True), ("trn3", True)])
def test_a_dense_stream_of_products_loses_half_a_window(target, throttles):
    b = products(target, 60)
    cold, full = run(b), run(b, throttles=False)
    lost = WINDOW * HALF if throttles else 0.0
    assert cold.latency_ns - full.latency_ns == pytest.approx(lost)
    assert cold.times.throttled_ns == pytest.approx(lost)
    busy = cold.engine_busy_ns["tensor"] - full.engine_busy_ns["tensor"]
    assert busy == pytest.approx(lost)


def test_products_with_pauses_run_at_half_rate_throughout():
    b = products("trn2", 20, waits=True)
    lengths = [end - start for start, end in spans(run(b, loads_stationary=False), Queue.TENSOR)]
    assert lengths == pytest.approx([512 / 2.4 / HALF] * 20)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_a_stationary_operand_loads_visibly_after_a_pause_only(target):
    b = products(target, 20, waits=True)
    work = b.trace.templates[-1].issue.work
    load = stationary_load_ns(work, b.target)
    rules = {"throttles": False}
    lengths = [end - start for start, end in spans(run(b, **rules), Queue.TENSOR)]
    assert lengths == pytest.approx([512 / 2.4 + load] * 20)
    dense = [end - start for start, end in spans(run(products(target, 20), **rules), Queue.TENSOR)]
    assert dense == pytest.approx([512 / 2.4] * 20)


@pytest.mark.parametrize(("target", "share"), [("trn2", 1.0), ("trn3", 0.5)])
def test_a_chain_of_transposes_runs_twice_as_fast_on_trainium_3(target, share):
    b = Builder(Dialect.CURRENT, TARGETS[target])
    data = b.tensor((128, 128), BFLOAT16)
    for _ in range(40):
        psum = b.tensor((128, 128), BFLOAT16, Buffer.PSUM)
        b.call(1, "nisa.nc_transpose", dst=psum, data=data)
    lengths = [end - start for start, end in spans(run(b, throttles=False), Queue.TENSOR)]
    assert lengths[1:] == pytest.approx([128 / 2.4 * share] * 39)
    slow = spans(run(b, throttles=False, hides_transposes=False), Queue.TENSOR)
    assert slow[-1][1] - slow[-1][0] == pytest.approx(128 / 2.4)


class TestDescriptors:
    """Loads of small tiles: making their descriptors bounds them, not the bytes."""

    def latency(self, target="trn2", dialect=Dialect.CURRENT, **options) -> float:
        b = Builder(dialect, TARGETS[target])
        source = b.hbm((128, 128 * 50), BFLOAT16)
        for i in range(50):
            tile = b.tensor((128, 128), BFLOAT16, site=i)
            where = source.columns(i * 128, i * 128 + 128)
            b.call(1, "nisa.dma_copy", dst=tile, src=where, **options)
        return run(b).latency_ns

    def test_the_current_dialect_makes_descriptors_at_run_time(self):
        made = TRN2["dma_generation_ns"]
        assert self.latency() > 50 * made
        assert self.latency(dge_mode="hwdge") == self.latency()

    @pytest.mark.parametrize(
        "options",
        [{"dge_mode": "none"}, {"dialect": Dialect.LEGACY}, {"target": "trn1"}],
        ids=str,
    )
    def test_descriptors_in_hbm_take_no_time(self, options):
        assert self.latency(**options) < 50 * TRN2["dma_generation_ns"]

    def test_a_single_transfer_takes_the_documented_time_to_its_use(self):
        """About 1300 ns beside the bytes, with or without descriptors to be made."""
        b = Builder(Dialect.CURRENT, TRN2)
        tile, out = b.tensor((128, 512)), b.tensor((128, 512))
        b.call(1, "nisa.dma_copy", dst=tile, src=b.hbm((128, 512)))
        b.call(2, "nisa.tensor_copy", dst=out, src=tile, engine="vector")
        schedule = run(b)
        busy = schedule.stream.ops[schedule.stream.codes[0]].busy_ns
        waited = schedule.times.visible[0] - TRN2["launch_ns"]
        assert waited == pytest.approx(busy + TRN2["dma_completion_ns"])
