"""Loops that run together: what is joined, what must not be, and that all work stays."""

from __future__ import annotations

from array import array
from collections import Counter

import pytest
from attrs import evolve

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.profiler.simulator.timeline.fusing import fuse_loops
from accelopt_lsp.profiler.simulator.timeline.policy import POLICIES
from accelopt_lsp.profiler.simulator.timeline.schedule import simulate_with
from accelopt_lsp.profiler.simulator.timeline.stream import stream_of
from accelopt_lsp.profiler.simulator.trace import Trace
from tests.timeline.builder import TRN1, Builder, Tile


class Loops:
    """A trace with two loops one after the other, over the same number of iterations."""

    def __init__(self, count: int, columns: int = 512) -> None:
        self.b = Builder()
        self.count, self.columns = count, columns
        self.x = self.b.hbm((128, count * columns))
        self.out = self.b.hbm((128, count * columns))
        self.iterations = array("q")

    def span(self, i: int) -> tuple[int, int]:
        return i * self.columns, (i + 1) * self.columns

    def loop(self, body, count: int | None = None) -> None:
        for i in range(self.count if count is None else count):
            first = len(self.b.trace)
            body(i)
            self.iterations.extend((0, i, first, len(self.b.trace)))

    def trace(self) -> Trace:
        self.b.trace.iterations = self.iterations
        return self.b.trace


def tile(value: Tile | None) -> Tile:
    assert value is not None
    return value


def chain(
    *,
    count: int = 4,
    users: int | None = None,
    offset: int = 0,
    between: str = "",
    columns: int = 512,
) -> Trace:
    """A loop that makes tiles, and one whose iteration ``i`` uses tile ``i + offset``."""
    k = Loops(count, columns)
    made: list[Tile] = []

    def make(i: int) -> None:
        loaded = tile(k.b.call(1, "nl.load", src=k.x.columns(*k.span(i))))
        made.append(tile(k.b.call(2, "nl.exp", x=loaded)))

    def use(i: int) -> None:
        value = k.b.call(4, "nl.exp", x=made[(i + offset) % count])
        k.b.call(5, "nl.store", dst=k.out.columns(*k.span(i)), value=value)

    k.loop(make)
    if between == "load":
        k.b.call(3, "nl.load", src=k.x.columns(*k.span(0)))
    elif between == "work":
        k.b.call(3, "nl.exp", x=made[0])
    k.loop(use, users)
    return k.trace()


def lines(trace: Trace) -> list[int]:
    stream = fuse_loops(stream_of(trace, TRN1), trace)
    return [stream.ops[code].line for code in stream.codes]


def test_loops_that_hand_tiles_over_run_together():
    assert lines(chain()) == [1, 2, 4, 5] * 4


def test_loads_between_them_go_first():
    assert lines(chain(between="load")) == [3] + [1, 2, 4, 5] * 4


@pytest.mark.parametrize(
    "case",
    [
        {"users": 3},
        {"offset": 1},
        {"between": "work"},
        {"count": 1},
    ],
    ids=["other count", "needs a later iteration", "work between", "single iteration"],
)
def test_other_loops_stay_apart(case):
    trace = chain(**case)
    stream = stream_of(trace, TRN1)
    assert fuse_loops(stream, trace) is stream


def test_loops_that_share_nothing_stay_apart():
    k = Loops(4)
    k.loop(lambda i: k.b.call(1, "nl.load", src=k.x.columns(*k.span(i))))
    k.loop(lambda i: k.b.call(2, "nl.load", src=k.x.columns(*k.span(i))))
    stream = stream_of(k.trace(), TRN1)
    assert fuse_loops(stream, k.trace()) is stream


def test_a_tile_that_is_overwritten_later_keeps_loops_apart():
    k = Loops(4)
    shared = k.b.tensor((128, 512), site=9)

    def make(i: int) -> None:
        k.b.call(1, "nl.load", into=shared, src=k.x.columns(*k.span(i)))

    def use(i: int) -> None:
        value = k.b.call(2, "nl.exp", x=shared)
        k.b.call(3, "nl.store", dst=k.out.columns(*k.span(i)), value=value)

    k.loop(make)
    k.loop(use)
    stream = stream_of(k.trace(), TRN1)
    assert fuse_loops(stream, k.trace()) is stream


def test_tensors_in_hbm_keep_loops_apart():
    k = Loops(4)

    def make(i: int) -> None:
        loaded = k.b.call(1, "nl.load", src=k.x.columns(*k.span(i)))
        k.b.call(2, "nl.store", dst=k.out.columns(*k.span(i)), value=loaded)

    def use(i: int) -> None:
        k.b.call(3, "nl.load", src=k.out.columns(*k.span(i)))

    k.loop(make)
    k.loop(use)
    stream = stream_of(k.trace(), TRN1)
    assert fuse_loops(stream, k.trace()) is stream


def test_all_work_stays():
    trace = chain(count=5, between="load")
    stream = stream_of(trace, TRN1)
    joint = fuse_loops(stream, trace)
    before = Counter(zip(stream.codes, stream.regions, strict=True))
    assert Counter(zip(joint.codes, joint.regions, strict=True)) == before


def test_what_would_spill_does_not_when_loops_run_together():
    """24 tiles of 8 KiB overflow SBUF; one after the other they do not."""
    trace = chain(count=24, columns=2048)
    policy = POLICIES[Dialect.LEGACY]
    assert simulate_with(trace, TRN1, policy).spill_save_bytes == 0
    apart = simulate_with(trace, TRN1, evolve(policy, fuses=False))
    assert apart.spill_save_bytes > 0
