"""Kernels that issue the same instructions count once in a beam."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from accelopt_lsp.agents.roles import Candidate
from accelopt_lsp.agents.selection import distinct
from accelopt_lsp.nki.arguments import KernelArguments, parse_spec
from accelopt_lsp.profiler.base import Job
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from tests.agents.landscape import at, profile_of

TEXT = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


async def stream_of(text: str) -> str | None:
    arguments = KernelArguments(values={"x": parse_spec("bf16[128,512]")})
    found = await SimulatorProfiler().profile(Job(Path("k.py"), text, "kernel", arguments, "trn2"))
    return getattr(found, "stream", None)


async def test_names_and_spelling_make_no_other_stream() -> None:
    known = await stream_of(TEXT)
    assert known is not None
    renamed = TEXT.replace("tile", "t").replace("(dst=t, src=x)", "(t, x)")
    assert await stream_of(renamed) == known


CHANGES = {
    "another operator": ("nl.exp", "nl.tanh"),
    "another place": ("dst=out, src=tile", "dst=out[0:64], src=tile[64:128]"),
    "another type": ("dtype=x.dtype, buffer=nl.sbuf", "dtype=nl.float32, buffer=nl.sbuf"),
    "one more instruction": ("    return", "    nisa.dma_copy(dst=out, src=tile)\n    return"),
}


@pytest.mark.parametrize(("old", "new"), CHANGES.values(), ids=CHANGES)
async def test_whatever_is_issued_makes_a_stream(old: str, new: str) -> None:
    assert await stream_of(TEXT.replace(old, new)) not in (None, await stream_of(TEXT))


def candidate(a: int, stream: str | None) -> Candidate:
    profile = evolve(profile_of(a, 1), stream=stream)
    return Candidate((1, 0, a, 0, 0), at(a, 1), profile, f"{a}")


def test_a_beam_holds_each_stream_once() -> None:
    order = [candidate(1, "s"), candidate(2, "s"), candidate(3, None), candidate(4, None)]
    assert [c.order[2] for c in distinct(order, 9)] == [1, 3, 4]
    assert [c.order[2] for c in distinct(order, 2)] == [1, 3]
