"""Work that steps do not see is bounded too: loops that repeat themselves, long lists and sets."""

from __future__ import annotations

import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.syntax import Document

HEAD = """import somewhere
import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,64]
@nki.jit
def kernel(x, n):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
"""
SET = "nisa.memset(dst=tile, value=0.0)"


def kernel_of(body: str):
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    (kernel,) = analyze(Document.parse(f"{HEAD}{indented}\n    return x\n")).kernels
    assert kernel.workload is not None
    return kernel


@pytest.mark.parametrize(
    "loop",
    [
        f"while True:\n    {SET}",
        f"i = 0\nwhile i < 4:\n    {SET}",
        f"t = [1]\nwhile t:\n    a = len(t)\n    {SET}",
        f"t = []\nwhile True:\n    t.append(n)\n    {SET}",
        f"def f(k):\n    a = k + 1\n    return a\nwhile f(3):\n    b = f(2)\n    {SET}",
        f"t = n\nwhile n is not None:\n    {SET}\n    n = somewhere.last.next\n"
        "    if n:\n        return x",
    ],
)
def test_a_loop_that_repeats_itself_is_left_at_once(loop):
    kernel = kernel_of(loop)
    assert kernel.steps < 1_000
    assert not kernel.workload.issued.instructions
    assert any("this loop" in reason for _, reason in kernel.workload.unknowns)


@pytest.mark.parametrize(
    ("loop", "count"),
    [
        (f"i = 0\nwhile i < 300:\n    i += 1\n    {SET}", 300),
        (f"t = [0] * 90\nwhile t:\n    t.pop()\n    {SET}", 90),
        (f"d = {{'k': 0}}\nwhile d['k'] < 70:\n    d['k'] += 1\n    {SET}", 70),
        (
            "def counter():\n    k = 0\n    def more():\n        nonlocal k\n        k += 1\n"
            f"        return k\n    return more\nc = counter()\nwhile c() < 60:\n    {SET}",
            59,
        ),
        (f"i = 0\nwhile True:\n    {SET}\n    if i == 80:\n        break\n    i += 1", 81),
    ],
)
def test_a_loop_that_ends_is_followed_to_its_end(loop, count):
    kernel = kernel_of(loop)
    assert kernel.workload.issued.instructions["memset"] == count
    assert kernel.workload.complete


@pytest.mark.parametrize(
    "loop",
    [
        f"i = 0\nwhile i < 9_000:\n    i += 1\n    if n > i:\n        break\n    {SET}",
        f"i = 0\nwhile i < 9_000:\n    {SET}\n    i += 1\n    if n > i:\n        break",
    ],
)
def test_a_loop_that_nobody_knows_the_end_of_is_visited_once(loop):
    kernel = kernel_of(f"{loop}\nfor j in range(i):\n    {SET}\n{SET}")
    assert kernel.steps < 300
    assert kernel.workload.issued.instructions["memset"] == 1
    assert not kernel.workload.complete


def test_what_an_iteration_sets_behind_an_unknown_exit_is_not_known():
    kernel = kernel_of(
        "i = k = 0\nwhile i < 4:\n    i += 1\n    if n > 2:\n        continue\n    k += 1\n"
        f"for j in range(k):\n    {SET}"
    )
    assert not kernel.workload.issued.instructions


def test_members_of_a_set_are_told_apart_by_value():
    kernel = kernel_of(
        "s = {1, 1.0, True, 'a', 'a', b'a', b'a', None, None}\n"
        f"for j in range(len(s)):\n    {SET}"
    )
    assert kernel.workload.issued.instructions["memset"] == 4


def test_forgetting_many_names_costs_steps():
    names = "\n".join(f"    name_{i} = 1" for i in range(800))
    few = kernel_of("if n:\n    name = 1").steps
    assert kernel_of(f"if n:\n{names}").steps >= few + 90


def test_looking_through_a_long_list_costs_steps():
    short, long = (kernel_of(f"t = [1] * {length}\n-1 in t").steps for length in (10, 6_400))
    assert long >= short + 300


def test_a_list_that_changes_while_it_is_iterated_over():
    kernel = kernel_of(
        "t = [1, 1, 1]\nk = 0\nfor a in t:\n    t[2] = 5\n    k += a\n"
        f"for j in range(k):\n    {SET}"
    )
    assert kernel.workload.issued.instructions["memset"] == 7


def test_recursion_on_what_is_not_known_ends():
    kernel = kernel_of(
        "def f(k):\n    if isinstance(k, list):\n        return f(k[0]) + f(k[1])\n"
        f"    return f(k.left) + f(k.right)\nf(somewhere.tree(n))\n{SET}"
    )
    assert kernel.steps < 5_000
    assert kernel.workload.issued.instructions["memset"] == 1


def test_recursion_on_what_is_known_goes_on():
    kernel = kernel_of(f"def f(k):\n    {SET}\n    if k:\n        f(k - 1)\nf(30)")
    assert kernel.workload.issued.instructions["memset"] == 31
    assert kernel.workload.complete
