"""What lenses and hovers say of a simulated run."""

from __future__ import annotations

import pytest
from attrs import evolve

from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.diagnostics import Position, Span
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.profile import (
    Bound,
    IdleGap,
    LineProfile,
    Profile,
    Provenance,
    Uncertainty,
    Wait,
    WhatIf,
)
from accelopt_lsp.nki.workload import (
    AllocationWork,
    Dependence,
    Holder,
    LoopWork,
    Waiting,
    Workload,
)
from accelopt_lsp.server.hover_pages import allocation_page, loop_page
from accelopt_lsp.server.snapshot import KernelView
from accelopt_lsp.server.wording import bounded_by, line_facts, profile_line

SIMULATED = Profile(
    kernel="silu",
    target="trn1",
    backend="simulator",
    provenance=Provenance.SIMULATED,
    latency_ms=2.0,
    uncertainty=Uncertainty(1.8, 2.2),
    bound=Bound.VECTOR,
    lines=(LineProfile(28, "dma", 224, 0.9, critical_ms=0.5), LineProfile(31, "scalar", 1, 0.1)),
    bounded_shares={"room": 0.25, "vector": 0.73, "launch": 0.02},
    idle=(
        IdleGap("scalar", Wait.DATA, "dma", 28, 1.0, 224, 0.01),
        IdleGap("gpsimd", Wait.DATA, "dma", 28, 0.001, 1, 0.001),
        IdleGap("dma", Wait.ROOM, "vector", 33, 0.6, 222, 0.01),
    ),
    what_ifs=(WhatIf("load_hoisted", 28, 1.6, 1.25), WhatIf("dma_free", None, 1.5, 1.33)),
)


def test_lenses_say_what_bounded_the_time() -> None:
    assert bounded_by(SIMULATED) == "vector 73 %, room 25 %"
    assert "bounded by vector 73 %, room 25 %" in profile_line(SIMULATED)
    assert "vector bound" in profile_line(evolve(SIMULATED, bounded_shares=None))


def test_a_line_has_its_part_of_the_path_and_those_who_waited_for_it() -> None:
    assert line_facts(SIMULATED, 28) == [
        "DMA: busy 900 µs, 25 % of the critical path",
        "Scalar Engine waited for data from dma: 1 ms in 224 gaps",
        "If on line 28 nothing were loaded again: at most 1.25 times as fast",
    ]
    assert line_facts(SIMULATED, 33) == [
        "DMA waited until vector freed a buffer: 600 µs in 222 gaps"
    ]
    assert line_facts(SIMULATED, 1) == []


@pytest.mark.parametrize(
    "changes", [{"latency_ms": None}, {"provenance": Provenance.ESTIMATED}], ids=str
)
def test_estimates_say_nothing_of_a_run(changes) -> None:
    assert line_facts(evolve(SIMULATED, **changes), 28) == []


@pytest.mark.parametrize(
    ("wait", "on", "line", "reason"),
    [
        (Wait.DATA, "dma", 3, "waited for data from dma of line 3"),
        (Wait.ROOM, "vector", 4, "waited until vector of line 4 freed a buffer"),
        (Wait.ORDER, "scalar", 5, "could not pass scalar of line 5"),
        (Wait.ORDER, None, None, "waited for its queue"),
        (Wait.LAUNCH, None, None, "nothing had begun yet"),
        (Wait.END, None, None, "had nothing left to do"),
    ],
)
def test_reasons_for_gaps(wait, on, line, reason) -> None:
    assert IdleGap("tensor", wait, on, line, 1.0, 1, 1.0).reason() == reason


WORK = Workload(
    loops=(LoopWork(4, "i", 8, 8, 9),),
    allocations=(
        AllocationWork(3, "tile", Buffer.SBUF, (128, 512), "float32", 2048, 2048),
        AllocationWork(5, "wide", Buffer.SBUF, (128, 4096), "float32", 16384, 16384),
    ),
    sbuf_peak_bytes=18432,
    sbuf_peak_line=7,
    sbuf_holders=(Holder("wide", 5, 16384), Holder("tile", 3, 2048)),
    dependences=(
        Dependence(
            loop_line=4,
            variable="i",
            waiting=Waiting.REUSE,
            tensor="tile",
            line=3,
            buffer=Buffer.SBUF,
            write_line=6,
            read_line=7,
            writers=("dma",),
            readers=("scalar",),
            movable=True,
            lost_ns=100.0,
        ),
    ),
)


def view(work: Workload, **changes) -> KernelView:
    """A kernel with that work."""
    place = Position(1, 1)
    return KernelView(
        name="silu",
        qualname="silu",
        dialect=Dialect.CURRENT,
        first_line=1,
        line=2,
        end_line=9,
        name_span=Span(place, place),
        target="trn2",
        arguments=KernelArguments(),
        directive="",
        workload=work,
        **changes,
    )


def test_a_page_on_a_loop_says_what_its_iterations_wait_for() -> None:
    page = loop_page(WORK.loops[0], view(WORK))
    assert "8 iterations" in page
    assert "waits until the one before has used `tile` (line 3)" in page
    carried = evolve(WORK.dependences[0], waiting=Waiting.CARRIED)
    work = evolve(WORK, dependences=(carried,))
    assert "needs `tile` (line 3) of the one before" in loop_page(WORK.loops[0], view(work))
    products = evolve(carried, waiting=Waiting.PRODUCT)
    assert "tile" not in loop_page(WORK.loops[0], view(evolve(WORK, dependences=(products,))))


def test_a_page_on_a_buffer_says_who_holds_the_most() -> None:
    page = allocation_page(WORK.allocations[0], view(WORK))
    assert "Fullest moment of the kernel: 18 KiB" in page
    assert "Alive then, at line 7: `wide` 16 KiB, `tile` 2 KiB" in page
