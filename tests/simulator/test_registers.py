"""Registers, loops that the hardware runs, and values that control flow needs."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import numpy as np
import pytest

from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, FailureKind
from accelopt_lsp.profiler.simulator.errors import KernelRejected, ValuesNeeded
from tests.simulator.helpers import Runner, job, profile

KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, count):
    out = nl.ndarray((1, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((1, 8), dtype=nl.float32, buffer=nl.sbuf)
    tile = nl.ndarray((1, 8), dtype=nl.float32, buffer=nl.sbuf)
    left = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(total, 0.0)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=left, src=count)
    register = nisa.register_alloc()
    nisa.register_load(register, left)

    def work(*_):
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)

    def count_down(condition):
        work()
        nisa.tensor_scalar(dst=left, data=left, op0=nl.subtract, operand0=1)
        nisa.register_load(condition, left)
        return condition

{body}
    nisa.dma_copy(dst=out, src=total)
    return out
"""


def _kernel(body: str) -> str:
    return KERNEL.replace("{body}", indent(body, "    "))


LOOPS = {
    "dynamic_range": ("for _ in nl.dynamic_range(register):\n    work()", lambda n: n),
    "stride": ("for _ in nl.dynamic_range(1, register, 2):\n    work()", lambda n: n // 2),
    "fori_loop": ("nl.fori_loop(0, register, work)", lambda n: n),
    "fori_stride": ("nl.fori_loop(1, register, work, step=3)", lambda n: (n + 1) // 3),
    "while": ("while register:\n    count_down(register)", lambda n: n),
    "while_loop": ("nl.while_loop(register, count_down)", lambda n: n),
    "constant": ("for _ in nl.dynamic_range(3):\n    work()", lambda n: 3),
    "moved": (
        "other = nisa.register_alloc(9)\nnisa.register_move(other, register)\n"
        "for _ in nl.dynamic_range(other):\n    work()",
        lambda n: n,
    ),
    "number": (
        "nisa.register_move(register, imm=2)\nfor _ in nl.dynamic_range(register):\n    work()",
        lambda n: 2,
    ),
    "through memory": (
        "nisa.register_store(left, nisa.register_alloc(4))\nnisa.register_load(register, left)\n"
        "for _ in nl.dynamic_range(register):\n    work()",
        lambda n: 4,
    ),
    "nested": (
        "for _ in nl.dynamic_range(2):\n    for _ in nl.dynamic_range(register):\n        work()",
        lambda n: 2 * n,
    ),
    "written variable": (
        "def body(i):\n    nisa.register_move(i, 100)\n    work()\nnl.fori_loop(0, register, body)",
        lambda n: n,
    ),
    "ordered body": (
        "for _ in nl.dynamic_range(register):\n    with nl.no_reorder():\n        work()",
        lambda n: n,
    ),
    "tile given first": (
        "for _ in nl.dynamic_range(nisa.register_alloc(left)):\n    work()",
        lambda n: n,
    ),
}


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("name", LOOPS)
def test_loops_run_as_often_as_the_register_says(run_text: Runner, name: str, count: int) -> None:
    body, times = LOOPS[name]
    x = np.arange(8, dtype=np.float32).reshape(1, 8)
    given = np.array([[count]], np.int32)
    outcome = run_text(_kernel(body), x, given, target="trn2")
    assert np.array_equal(outcome.outputs[0], x * times(count))


REFUSED = {
    "arithmetic": ("register + 1", "R084", "cannot compute with a register"),
    "comparison": ("if register > 1:\n    work()", "R084", "cannot compute with a register"),
    "if": ("if register:\n    work()", "R012", "cannot decide an if"),
    "int": ("int(register)", "R084", "cannot compute with a register"),
    "unrolled loop": ("for _ in nl.affine_range(register):\n    work()", "R084", "fori_loop"),
    "empty": ("nl.fori_loop(0, nisa.register_alloc(), work)", "R099", "never written"),
    "step": ("nl.fori_loop(0, 4, work, step=0)", "R084", "positive integer"),
    "step in register": (
        "for _ in nl.dynamic_range(0, 4, register):\n    work()",
        "R084",
        "got a register",
    ),
    "result of a body": ("nl.fori_loop(0, 4, lambda i: i)", "R084", "returns nothing"),
    "no condition": ("nl.while_loop(register, work)", "R084", "needs a register"),
    "no first condition": ("nl.while_loop(3, count_down)", "R084", "needs a register"),
    "frozen": (
        "for i in nl.dynamic_range(2):\n    nisa.register_move(i, 1)",
        "R084",
        "read-only",
    ),
    "in order": (
        "with nl.no_reorder():\n    nl.fori_loop(0, 2, work)",
        "R084",
        "inside nl.no_reorder",
    ),
    "whole tile": ("nisa.register_load(register, tile)", "R027", "8 elements"),
    "too large": ("nisa.register_alloc(1 << 33)", "R084", "32 bits"),
    "tile moved": ("nisa.register_move(register, left)", "R101", "register_load"),
    "fraction": (
        "nl.fori_loop(0, nisa.register_alloc(1.5), work)",
        "R084",
        "needs an integer",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_registers_cannot_do_is_refused(run_text: Runner, name: str) -> None:
    body, code, text = REFUSED[name]
    x, count = np.zeros((1, 8), np.float32), np.array([[2]], np.int32)
    with pytest.raises(KernelRejected, match=text) as caught:
        run_text(_kernel(body), x, count, target="trn2")
    assert caught.value.code == code


def test_registers_compare_with_none(run_text: Runner) -> None:
    body = "assert register != None\nassert not (register == None)\nassert register in (register,)"
    x, count = np.zeros((1, 8), np.float32), np.array([[2]], np.int32)
    assert run_text(_kernel(body), x, count, target="trn2").outputs


DOUBLED = """nisa.tensor_scalar(dst=left, data=left, op0=nl.multiply, operand0=2)
nisa.register_load(register, left)
for _ in nl.dynamic_range(register):
    work()"""


@pytest.mark.parametrize("name", ["dynamic_range", "fori_loop", "while", "while_loop"])
def test_shapes_alone_do_not_tell_how_often(run_text: Runner, name: str) -> None:
    x, count = np.zeros((1, 8), np.float32), np.array([[2]], np.int32)
    with pytest.raises(ValuesNeeded) as caught:
        run_text(_kernel(LOOPS[name][0]), x, count, target="trn2", full=False)
    assert "comes from count" in str(caught.value)
    assert "--arg count=@count.npy" in str(caught.value)


@pytest.mark.parametrize("count", [0, 3, 7])
def test_values_from_a_file_are_followed(tmp_path: Path, count: int) -> None:
    path = tmp_path / "case.py"
    path.write_text(_kernel(DOUBLED))
    np.save(tmp_path / "count.npy", np.array([[count]], np.int64))
    specs = {"x": "f32[1,8]", "count": "@count.npy"}
    found = profile(job(path, specs, target="trn2"))
    assert isinstance(found, Profile), found
    assert found.issued.instructions.get("tensor_tensor", 0) == 2 * count


NONZERO = """chosen = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=chosen[0:1], src=x)
found = nl.ndarray((128, 9), dtype=nl.int32, buffer=nl.sbuf)
nisa.nonzero_with_count(dst=found, src=chosen)
nisa.register_load(register, found[0:1, 8:9])
for _ in nl.dynamic_range(register):
    work()"""


def test_what_reads_one_partition_is_followed_without_the_others(tmp_path: Path) -> None:
    """Partitions that hold nothing, or what is not known, leave the searched one's result."""
    path = tmp_path / "case.py"
    np.save(tmp_path / "x.npy", np.array([[0, 2, 0, 0, 1, 1, 0, 0]], np.float32))
    unknown = "nisa.dma_copy(dst=chosen[16:17], src=y)\nfound ="
    swapped = NONZERO.replace("src=x", "src=y").replace("found =", unknown.replace("=y", "=x"), 1)
    for body, expected in (
        (NONZERO, 3),
        (NONZERO.replace("found =", unknown, 1), 3),
        (swapped, None),
    ):
        path.write_text(_kernel(body).replace("(x, count)", "(x, count, y)"))
        specs = {"x": "@x.npy", "count": "i32[1,1]", "y": "f32[1,8]"}
        found = profile(job(path, specs, target="trn2"))
        if expected is None:
            assert isinstance(found, Failure)
            assert found.code == "R012"
        else:
            assert isinstance(found, Profile), found
            assert found.issued.instructions.get("tensor_tensor", 0) == expected


def test_without_values_the_message_names_the_option(tmp_path: Path) -> None:
    path = tmp_path / "case.py"
    path.write_text(_kernel(DOUBLED))
    specs = {"x": "f32[1,8]", "count": "i32[1,1]"}
    found = profile(job(path, specs, target="trn2"))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.REJECTED
    assert found.code == "R012"
    assert "--arg count=@count.npy" in found.message


REFERENCE = """import numpy as np

def get_inputs():
    count = np.random.randint(1, 6)
    return [np.random.rand(1, 8).astype(np.float32), np.array([[count]], np.int32)]

def forward(x, count):
    return x * 2 * count[0, 0]
"""


@pytest.mark.parametrize("seeds", [(), (0, 21, 42)])
def test_a_reference_gives_the_values(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    path, reference = tmp_path / "case.py", tmp_path / "case_reference.py"
    path.write_text(_kernel(DOUBLED))
    reference.write_text(REFERENCE)
    found = profile(job(path, {}, target="trn2", reference=reference, seeds=seeds))
    assert isinstance(found, Profile), found
    assert found.correct is (True if seeds else None)
    assert found.unknown_instructions == ("register_load",)


STORED = """nisa.register_store(left, register)
scale = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
nisa.tensor_copy(dst=scale, src=left)
work()
nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=scale)
nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=2.0)"""


def test_registers_are_set_again_for_every_seed(tmp_path: Path) -> None:
    """No control flow depends on the register: the trace is made once and computed per seed."""
    path, reference = tmp_path / "case.py", tmp_path / "case_reference.py"
    path.write_text(_kernel(STORED))
    reference.write_text(REFERENCE)
    found = profile(job(path, {}, target="trn2", reference=reference, seeds=(0, 21, 42, 63)))
    assert isinstance(found, Profile), found
    assert found.correct is True
    assert not any("seed" in note for note in found.notes)


def test_iterations_are_in_the_trace(run_text: Runner) -> None:
    body = """for i in nl.dynamic_range(2):
    work()
    for j in nl.affine_range(3):
        work()
        if j == 1:
            break"""
    x, count = np.zeros((1, 8), np.float32), np.array([[2]], np.int32)
    outcome = run_text(_kernel(body), x, count, target="trn2")
    numbers = list(outcome.session.trace.iterations)
    first = numbers[2]
    found = [
        (*numbers[n : n + 2], numbers[n + 2] - first, numbers[n + 3] - first)
        for n in range(0, len(numbers), 4)
    ]
    assert found == [
        (1, 0, 0, 1),
        (1, 1, 1, 2),
        (0, 0, -1, 2),
        (1, 0, 3, 4),
        (1, 1, 4, 5),
        (0, 1, 2, 5),
    ]
