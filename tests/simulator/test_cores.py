"""Programs of a launch grid: what they share, how they meet, and what happens if they do not."""

from __future__ import annotations

import threading
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pytest

from accelopt_lsp.nki.arguments import KernelArguments, parse_spec
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, FailureKind, Job, Limits
from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from tests.simulator.helpers import Runner, normal, profile

KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    rank = nl.program_id(0)
    other = 1 - rank
    out = nl.ndarray((2, 128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    mine = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    theirs = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=mine, src=x[rank])
    nisa.memset(theirs, 0.0)

    def exchange(src, dst, pipe=0):
        nisa.sendrecv(src=src, dst=dst, send_to_rank=other, recv_from_rank=other, pipe_id=pipe)

    def add(a, b):
        nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.add)

{body}
    return out
"""
STORE = "\nnisa.dma_copy(dst=out[rank], src=theirs)"


def _kernel(body: str) -> str:
    return KERNEL.replace("{body}", indent(body, "    "))


MEETINGS: dict[str, tuple[str, Any]] = {
    "exchange": ("exchange(mine, theirs)" + STORE, lambda x: x[::-1]),
    "in place": (
        "exchange(mine, mine)\nnisa.tensor_copy(dst=theirs, src=mine)" + STORE,
        lambda x: x[::-1],
    ),
    "to itself": (
        "nisa.sendrecv(src=mine, dst=theirs, send_to_rank=rank, recv_from_rank=rank, pipe_id=0)"
        + STORE,
        lambda x: x,
    ),
    "many times": (
        "for pipe in range(5):\n    exchange(mine, theirs, pipe)\n    add(mine, theirs)" + STORE,
        lambda x: np.stack([x.sum(0) * 8, x.sum(0) * 8]),
    ),
    "after unequal work": (
        "if rank == 1:\n    for _ in range(20):\n        add(mine, mine)\n"
        "exchange(mine, theirs)" + STORE,
        lambda x: np.stack([x[1] * 2**20, x[0]]),
    ),
    "barrier": (
        "nisa.dma_copy(dst=out[rank], src=mine)\nnisa.core_barrier(data=out, cores=(0, 1))\n"
        "nisa.dma_copy(dst=theirs, src=out[other])\nadd(theirs, mine)\n"
        "nisa.core_barrier(data=out, cores=(0, 1))" + STORE,
        lambda x: np.stack([x.sum(0), x.sum(0)]),
    ),
    "barrier over a tile of each core": (
        "nisa.dma_copy(dst=out[rank], src=mine)\nnisa.core_barrier(data=mine, cores=[0, 1])\n"
        "nisa.dma_copy(dst=theirs, src=out[other])\n"
        "nisa.core_barrier(data=theirs, cores=(0, 1))" + STORE,
        lambda x: x[::-1],
    ),
    "small transfer by gpsimd": (
        "nisa.sendrecv(mine, theirs, other, other, 0, dma_engine=nisa.dma_engine.gpsimd_dma)"
        + STORE,
        lambda x: x[::-1],
    ),
    "barrier of one": (
        "nisa.core_barrier(data=out, cores=(rank,))\nnisa.tensor_copy(dst=theirs, src=mine)"
        + STORE,
        lambda x: x,
    ),
    "barrier of one, by its number": (
        "nisa.core_barrier(data=out, cores=(rank))\nnisa.tensor_copy(dst=theirs, src=mine)" + STORE,
        lambda x: x,
    ),
    "inside a loop of the hardware": (
        "for _ in nl.dynamic_range(3):\n    exchange(mine, theirs)\n    add(mine, theirs)" + STORE,
        lambda x: np.stack([x.sum(0) * 2, x.sum(0) * 2]),
    ),
}


def _inputs() -> Any:
    return np.round(normal(2, 128, 8) * 8)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("name", MEETINGS)
def test_programs_meet(run_text: Runner, name: str, order: tuple[int, ...]) -> None:
    body, expected = MEETINGS[name]
    x = _inputs()
    outcome = run_text(_kernel(body), x, target="trn2", grid=(2,), order=order)
    assert np.array_equal(outcome.outputs[0], expected(x))
    assert sessions.current() is None


@pytest.mark.parametrize("name", MEETINGS)
def test_the_trace_is_that_of_the_first_core(run_text: Runner, name: str) -> None:
    traces = [
        run_text(_kernel(MEETINGS[name][0]), _inputs(), target="trn2", grid=(2,), order=order)
        for order in ((0, 1), (1, 0))
    ]
    first, second = (t.session.trace for t in traces)
    issued = [[t.templates[code].issue.op for code, _ in t.records] for t in (first, second)]
    assert issued[0] == issued[1]
    meeting = "core_barrier" if "barrier" in name else "sendrecv"
    assert meeting in issued[0]


SHARED = {
    "by variable": (
        "whole = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.shared_hbm)\n"
        "nisa.dma_copy(dst=whole[64 * rank:64 * rank + 64], src=mine[0:64])\n"
        "nisa.core_barrier(data=whole, cores=(0, 1))\n"
        "nisa.dma_copy(dst=theirs, src=whole)",
        lambda x: np.stack([np.concatenate([x[0, :64], x[1, :64]])] * 2),
    ),
    "by name, made in another order": (
        "def make(name):\n"
        "    return nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.shared_hbm, name=name)\n"
        "made = {n: make(n) for n in (('a', 'b') if rank == 0 else ('b', 'a'))}\n"
        "nisa.dma_copy(dst=made['ab'[rank]], src=mine)\n"
        "nisa.core_barrier(data=made['a'], cores=(0, 1))\n"
        "nisa.dma_copy(dst=theirs, src=made['ab'[other]])",
        lambda x: x[::-1],
    ),
    "private": (
        "own = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.private_hbm)\n"
        "nisa.dma_copy(dst=own, src=mine)\n"
        "nisa.core_barrier(data=out, cores=(0, 1))\n"
        "nisa.dma_copy(dst=theirs, src=own)",
        lambda x: x,
    ),
    "hbm is private": (
        "own = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.hbm)\n"
        "nisa.dma_copy(dst=own, src=mine)\n"
        "nisa.core_barrier(data=out, cores=(0, 1))\n"
        "nisa.dma_copy(dst=theirs, src=own)",
        lambda x: x,
    ),
}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("name", SHARED)
def test_tensors_are_shared_or_private(run_text: Runner, name: str, order: tuple[int, ...]) -> None:
    body, expected = SHARED[name]
    x = _inputs()
    outcome = run_text(_kernel(body + STORE), x, target="trn2", grid=(2,), order=order)
    assert np.array_equal(outcome.outputs[0], expected(x))


REFUSED = {
    "partner has ended": (
        "if rank == 0:\n    exchange(mine, theirs)",
        "program 0 waits at nisa.sendrecv.*program 1 ended without a matching call",
    ),
    "partner had ended": (
        "if rank == 1:\n    nisa.core_barrier(data=out, cores=(0, 1))",
        "program 1 waits at nisa.core_barrier.*program 0 ended without a matching call",
    ),
    "other pipe": (
        "exchange(mine, theirs, rank)",
        "neither can go on",
    ),
    "barrier against exchange": (
        "if rank == 0:\n    exchange(mine, theirs)\n"
        "else:\n    nisa.core_barrier(data=out, cores=(0, 1))",
        "neither can go on",
    ),
    "shapes differ": (
        "exchange(mine[0:64 + 32 * rank], theirs[0:64 + 32 * rank])",
        "shapes and types must be equal",
    ),
    "nobody sends": (
        "nisa.sendrecv(mine, theirs, rank, other, 0)",
        "which sends to program",
    ),
    "rank": ("nisa.sendrecv(mine, theirs, 2, 0, 0)", "send_to_rank must be 0 or 1"),
    "too large for gpsimd": (
        "big = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.sendrecv(big, big, other, other, 0, dma_engine=nisa.dma_engine.gpsimd_dma)",
        "at most 1024 bytes a partition",
    ),
    "never written": (
        "empty = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)\nexchange(empty, theirs)",
        "never written",
    ),
    "fails elsewhere": (
        "if rank == 1:\n    nl.ndarray((200, 8), dtype=nl.float32, buffer=nl.sbuf)\n"
        "exchange(mine, theirs)",
        "at most 128 partitions",
    ),
}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_meet_is_refused(run_text: Runner, name: str, order: tuple[int, ...]) -> None:
    body, text = REFUSED[name]
    before = threading.active_count()
    with pytest.raises(KernelRejected) as caught:
        run_text(_kernel(body), _inputs(), target="trn2", grid=(2,), order=order)
    if name not in ("partner has ended", "partner had ended") or order == (0, 1):
        assert caught.match(text)
    else:
        assert caught.match("ended without a matching call")
    assert sessions.current() is None
    assert threading.active_count() == before


@pytest.mark.parametrize("grid", [(), (1,), (3,)])
def test_two_cores_are_needed(run_text: Runner, grid: tuple[int, ...]) -> None:
    body = "if rank < 2:\n    nisa.core_barrier(data=out, cores=(0, 1))"
    x = np.concatenate([_inputs(), _inputs()])
    with pytest.raises(KernelRejected, match=r"launch the kernel as kernel\[2\]") as caught:
        run_text(_kernel(body), x, target="trn2", grid=grid)
    assert caught.value.code == "R088"


def test_older_generations_have_one_core_each(run_text: Runner) -> None:
    with pytest.raises(KernelRejected, match="NeuronCore-v3") as caught:
        run_text(_kernel("exchange(mine, theirs)"), _inputs(), target="trn1", grid=(2,))
    assert caught.value.code == "R095"


def test_programs_that_do_not_meet_need_no_threads(
    run_text: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading.Thread, "start", None)
    x = _inputs()
    body = "nisa.tensor_copy(dst=theirs, src=mine)" + STORE
    outcome = run_text(_kernel(body), x, target="trn2", grid=(2,))
    assert np.array_equal(outcome.outputs[0], x)


def _job(path: Path, **changes: Any) -> Job:
    return Job(
        path=path,
        source=path.read_text(),
        function="kernel",
        arguments=KernelArguments(values={"x": parse_spec("f32[2,128,8]")}, grid=(2,)),
        target="trn2",
        limits=Limits(seconds=changes.pop("seconds", 60.0)),
        **changes,
    )


REFERENCE = """def forward(x):
    return x[::-1]
"""


def test_cores_meet_in_the_sandbox_and_for_every_seed(tmp_path: Path) -> None:
    path, reference = tmp_path / "case.py", tmp_path / "case_reference.py"
    path.write_text(_kernel(MEETINGS["exchange"][0]))
    reference.write_text(REFERENCE)
    found = profile(_job(path, reference=reference, seeds=(0, 21, 42)))
    assert isinstance(found, Profile), found
    assert found.correct is True
    assert found.unknown_instructions == ("sendrecv",)


def test_accumulators_belong_to_a_core(tmp_path: Path) -> None:
    """A sum that the Scalar Engine keeps is not mixed with the other core's."""
    path, reference = tmp_path / "case.py", tmp_path / "case_reference.py"
    body = """sums = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
nisa.activation(dst=theirs, op=nl.copy, data=mine, reduce_op=nl.add,
                reduce_cmd=nisa.reduce_cmd.reset_reduce)
nisa.core_barrier(data=out, cores=(0, 1))
nisa.activation(dst=theirs, op=nl.copy, data=mine, reduce_op=nl.add, reduce_res=sums,
                reduce_cmd=nisa.reduce_cmd.reduce)
nisa.memset(theirs, 0.0)
nisa.tensor_scalar(dst=theirs, data=theirs, op0=nl.add, operand0=sums)"""
    path.write_text(_kernel(body + STORE))
    reference.write_text(
        "import numpy as np\n"
        "def forward(x):\n    return np.broadcast_to(2 * x.sum(-1, keepdims=True), x.shape)\n"
    )
    found = profile(_job(path, reference=reference, seeds=(0, 21)))
    assert isinstance(found, Profile), found
    assert found.correct is True


@pytest.mark.parametrize("waiting", [0, 1])
def test_a_program_that_hangs_is_stopped(tmp_path: Path, waiting: int) -> None:
    path = tmp_path / "case.py"
    path.write_text(
        _kernel(f"if rank == {1 - waiting}:\n    while True:\n        pass\nexchange(mine, theirs)")
    )
    found = profile(_job(path, seconds=3.0))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.TIMEOUT


def test_an_error_in_another_program_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "case.py"
    path.write_text(_kernel("if rank == 1:\n    1 / 0\nexchange(mine, theirs)"))
    found = profile(_job(path))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.EXCEPTION
    assert "ZeroDivisionError" in found.message
    assert path.read_text().splitlines()[(found.line or 0) - 1].strip() == "1 / 0"


HOSTILE = {
    "spins when it is abandoned": """exchange(mine, theirs)
if rank == 0:
    1 / 0
try:
    exchange(mine, theirs, 5)
except BaseException:
    while True:
        pass""",
    "waits again when it is abandoned": """exchange(mine, theirs)
if rank == 0:
    1 / 0
while True:
    try:
        exchange(mine, theirs, 5)
    except BaseException:
        pass""",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_program_that_does_not_let_go_delays_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / "case.py"
    path.write_text(_kernel(HOSTILE[name]))
    found = profile(_job(path, seconds=30.0))
    assert isinstance(found, Failure)
    assert "ZeroDivisionError" in found.message


UNEVEN = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    rank = nl.program_id(0)
    out = nl.ndarray((2, 128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[rank])
    for _ in range({times}):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out[rank], src=tile)
    return out
"""
EVEN, FIRST, SECOND = "9", "9 if rank == 0 else 1", "1 if rank == 0 else 9"


@pytest.mark.parametrize(("times", "slowest"), [(EVEN, False), (FIRST, False), (SECOND, True)])
@pytest.mark.parametrize("seeds", [(), (0,)], ids=["traced", "verified"])
def test_a_launch_takes_as_long_as_its_slowest_core(
    tmp_path: Path, times: str, slowest: bool, seeds: tuple[int, ...]
) -> None:
    path = tmp_path / "uneven.py"
    text = UNEVEN.replace("{times}", times)
    path.write_text(text)
    arguments = KernelArguments({"x": parse_spec("f32[2,128,8]")}, grid=(2,))
    found = profile(Job(path, text, "kernel", arguments, "trn2", seeds=seeds))
    assert isinstance(found, Profile)
    assert found.issued.instructions["tensor_scalar"] == 9
    assert found.launch == "2 programs on 2 cores"
    assert any("the slowest one" in note for note in found.notes) is slowest


def test_a_launch_that_is_repeated_does_the_same(tmp_path: Path) -> None:
    path = tmp_path / "uneven.py"
    text = UNEVEN.replace("@nki.jit", "CALLS = []\n\n\n@nki.jit", 1)
    text = text.replace("{times}", "9 if rank and not CALLS.append(0) and len(CALLS) < 2 else 1")
    path.write_text(text)
    arguments = KernelArguments({"x": parse_spec("f32[2,128,8]")}, grid=(2,))
    found = profile(Job(path, text, "kernel", arguments, "trn2", seeds=(0,)))
    assert isinstance(found, Failure)
    assert "launched again" in found.message
