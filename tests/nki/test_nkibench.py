"""NKIBench's yardstick, against the published figures."""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path

import pytest

import accelopt_lsp.profiler
from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.nkibench import FORMULAS, known_yardstick, yardstick_of
from accelopt_lsp.nki.peak import Yardstick, peak_latency_ms, percent_of_peak
from accelopt_lsp.nki.targets import get_target

TRN1 = get_target("trn1")
ROWS = json.loads(
    (Path(accelopt_lsp.profiler.__file__).parent / "data" / "nkibench_measured.json").read_text(
        "utf-8"
    )
)["kernels"]


def test_every_published_kernel_has_a_formula():
    names = {row["kernel"] for row in ROWS}
    assert names == set(FORMULAS)
    for row in ROWS:
        assert yardstick_of(Path(row["file"]).stem) is not None
        assert yardstick_of(Path(row["reference"]).stem) == yardstick_of(Path(row["file"]).stem)


def test_the_mean_percent_of_peak_is_the_published_one():
    """The paper gives 49 % for its baselines on Trainium 1."""
    shares = []
    for row in ROWS:
        yardstick = yardstick_of(Path(row["file"]).stem)
        assert yardstick is not None
        shares.append(percent_of_peak(row["measured_ms"], yardstick, TRN1, FLOAT32))
    mean = exp(sum(map(log, shares)) / len(shares))
    assert mean == pytest.approx(49.2, abs=1.0)


def test_the_mamba_baseline_reaches_the_published_share():
    (row,) = [r for r in ROWS if r["kernel"] == "mamba"]
    yardstick = yardstick_of(Path(row["file"]).stem)
    assert yardstick is not None
    assert percent_of_peak(row["measured_ms"], yardstick, TRN1, FLOAT32) == pytest.approx(
        28.4, abs=0.3
    )


def test_a_product_is_bound_by_its_flops():
    yardstick = yardstick_of("matmul_M4096_N12288_K5120_0")
    assert yardstick == Yardstick(
        0.0, 2.0 * 4096 * 12288 * 5120, 4.0 * (4096 * 5120 + 5120 * 12288 + 4096 * 12288)
    )
    assert peak_latency_ms(yardstick, TRN1, FLOAT32) == pytest.approx(21.7, abs=0.1)


@pytest.mark.parametrize("stem", ["matmul", "silu_M4096", "kernel_M1_N2", "matmul_M4_N4", "", "x"])
def test_other_names_are_no_problems(stem):
    assert yardstick_of(stem) is None
    assert known_yardstick([stem, "silu_M128_N512_0"]) is not None
