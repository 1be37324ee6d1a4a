"""Patterns of integers behind index expressions that are not affine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.patterns import nested_pattern
from tests.simulator.helpers import Runner, job, profile

KERNEL = """
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    p, i = nl.arange(128)[:, None], nl.arange(48)[None, :]
    out = nl.ndarray((128, 48), dtype=nl.int32, buffer=nl.shared_hbm)
    nl.store(out, value=nisa.iota({expression}, dtype=nl.int32))
    return out
"""


@pytest.mark.parametrize(
    "expression",
    ["i // 4 + 2 * p", "i % 4 - p", "(i // 4) * 100 + i % 4 + 0 * p", "47 - i // 16 + p"],
)
def test_iota_makes_quotients_and_remainders(run_text: Runner, expression: str) -> None:
    found = run_text(KERNEL.format(expression=expression), np.zeros((1, 1), np.float32))
    p, i = np.arange(128)[:, None], np.arange(48)[None, :]
    expected = eval(expression, {"p": p, "i": i})  # noqa: S307 - the parameters above
    assert np.array_equal(found.as_returned(), expected)


@pytest.mark.parametrize("expression", ["p // 4 + i", "(i // 3) % 5 + 0 * p", "i % 7 + 0 * p"])
def test_what_no_nested_steps_make_is_rejected(run_text: Runner, expression: str) -> None:
    with pytest.raises(KernelRejected, match="at most four nested steps") as caught:
        run_text(KERNEL.format(expression=expression), np.zeros((1, 1), np.float32))
    assert caught.value.code == "R033"


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=4),
    st.integers(-9, 9),
    st.integers(-9, 9),
)
def test_nested_steps_are_found_again(
    steps: list[tuple[int, int]], multiplier: int, offset: int
) -> None:
    row = np.array([offset])
    for step, count in steps:
        row = (row[:, None] + step * np.arange(count)).reshape(-1)
    values = row + multiplier * np.arange(3)[:, None]
    found = nested_pattern(values)
    assert found is not None
    again = np.array([found.offset])
    for step, count in found.steps:
        again = (again[:, None] + step * np.arange(count)).reshape(-1)
    assert np.array_equal(again + found.multiplier * np.arange(3)[:, None], values)


SELECTED = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray((4, 128, 16), dtype=x.dtype, buffer=nl.shared_hbm)
    whole = nl.load(x)
    p = nl.arange(128)[:, None, None]
    i, j = nl.arange(4)[None, :, None], nl.arange(4)[None, None, :]
    for s in range(1, 5):
        tile = nl.load(x[p, {pattern}])
        again = nl.exp(whole[p, {pattern}])
        nl.store(out[s - 1].reshape((128, 4, 4)), nl.add(tile, again))
    return out
"""


def test_equal_boxes_are_equal_work_only_if_the_same_elements_are_meant(tmp_path: Path) -> None:
    busy = []
    for pattern, different in (("i * 20 + j * 150", 1), ("i * s + j * (170 - s)", 4)):
        path = tmp_path / "selected.py"
        path.write_text(SELECTED.replace("{pattern}", pattern))
        found = profile(job(path, {"x": "f32[128,511]"}))
        assert isinstance(found, Profile)
        assert found.issued.instructions["activation"] == 4
        assert found.counters["hbm_read_bytes"] == 128 * 4 * (511 + 16 * different)
        busy.append(found.engine_busy_ms["scalar"])
    assert busy[1] == pytest.approx(4 * busy[0])
