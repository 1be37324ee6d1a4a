"""How figures read, above all where they change their unit or their number of digits."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.figures import latency_text, short, size_text, time_text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (2, "2"),
        (1.5, "1.5"),
        (1.754, "1.75"),
        (9.996, "10"),
        (45.44, "45.4"),
        (99.96, "100"),
        (100.4, "100"),
        (1023.9, "1024"),
        (0.004, "0.004"),
    ],
)
def test_three_digits_that_count(number, text):
    assert short(number) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1023 * 1024, "1023 KiB"),
        (1 << 40, "1024 GiB"),
    ],
)
def test_sizes(count, text):
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (213, "213 ns"), (999_900, "1000 µs"), (1_750_000, "1.75 ms"), (5e9, "5 s")],
)
def test_times(ns, text):
    assert time_text(ns) == text
    assert latency_text(ns / 1e6) == text


@given(st.floats(0, 1e15))
def test_a_text_is_within_half_a_percent_of_its_number(number):
    text = short(number)
    assert re.fullmatch(r"\d+(\.\d+)?(e-\d+)?", text)
    assert math.isclose(float(text), number, rel_tol=0.006, abs_tol=1e-300)
