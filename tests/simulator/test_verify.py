"""Comparison of outputs with what they should be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.profiler.simulator.verify import compare, relative_error, tolerance
from tests.simulator.helpers import normal

F32 = get_dtype("f32")


@given(st.floats(1e-6, 1.0), st.integers(0, 9))
def test_scaling_an_output_is_an_error_of_that_size(share: float, seed: int) -> None:
    expected = normal(20, 30, seed=seed).astype(np.float64)
    error, odd = relative_error(expected * (1 + share), expected)
    assert odd == ""
    assert error == pytest.approx(share, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("f32", 2e-5), ("f16", 2e-3), ("bf16", 1e-2), ("f8e4m3", 5e-2), ("f8e5m2", 5e-2)],
)
def test_tolerances(name: str, allowed: float) -> None:
    assert tolerance(get_dtype(name)) == allowed
    assert tolerance(get_dtype(name), 1e-9) == 1e-9


def test_the_first_wrong_element_is_named() -> None:
    expected = normal(4, 5)
    actual = expected.copy()
    actual[2, 3] += 1
    verdict = compare([actual], [expected], [F32])
    assert not verdict.correct
    assert "[2, 3]" in verdict.message


def test_shapes_must_match() -> None:
    verdict = compare([normal(4, 5)], [normal(5, 4)], [F32])
    assert not verdict.correct
    assert "shape [4, 5]" in verdict.message


def test_all_outputs_must_be_there() -> None:
    assert not compare([normal(4)], [normal(4), normal(4)], [F32]).correct


def test_infinities_must_stand_in_their_places() -> None:
    expected = normal(4)
    expected[1] = np.inf
    assert compare([expected.copy()], [expected], [F32]).correct
    assert not compare([normal(4)], [expected], [F32]).correct
    nan = normal(4)
    nan[2] = np.nan
    verdict = compare([nan], [normal(4)], [F32])
    assert not verdict.correct
    assert "NaN" in verdict.message


def test_zeros_are_compared_absolutely() -> None:
    zeros = np.zeros(4, np.float32)
    assert compare([zeros], [zeros], [F32]).correct
    assert not compare([zeros + 1], [zeros], [F32]).correct
