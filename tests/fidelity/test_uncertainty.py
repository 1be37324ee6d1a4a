"""Laws of the interval around a predicted latency."""

from __future__ import annotations

from math import exp, log

import pytest
from attrs import evolve

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.profile import Bound
from accelopt_lsp.profiler.simulator.timeline.uncertainty import (
    FLOOR,
    SERIES_WEIGHT,
    UNCALIBRATED,
    Residual,
    coverage,
    interval,
    residuals,
    student,
)


def residual(name, error, *, measured=1.0, bound="tensor", held_out=None, **changes):
    """A kernel whose measured latency is exp(error) of the predicted one."""
    fields = {
        "kernel": name,
        "target": "trn1",
        "dialect": "legacy",
        "family": name,
        "series": None,
        "bound": bound,
        "spill_share": 0.0,
        "measured_ms": measured,
        "predicted_ms": measured / exp(error),
        "held_out_ms": held_out,
    }
    return Residual(**{**fields, **changes})


def pool(error, count=10, **changes):
    return [residual(f"k{n}", error * (-1) ** n, **changes) for n in range(count)]


def half(rows, *, latency=1.0, target="trn1", dialect=Dialect.LEGACY, bound=Bound.TENSOR, **more):
    found = interval(latency, target=target, dialect=dialect, bound=bound, rows=rows, **more)
    assert found.high_ms / latency == pytest.approx(latency / found.low_ms)
    assert found.level == 0.8
    return log(found.high_ms / latency), found.extrapolated


def test_the_interval_follows_the_residuals():
    narrow, known = half(pool(0.1))
    wide, _ = half(pool(0.2))
    assert wide == pytest.approx(2 * narrow)
    assert narrow == pytest.approx(student(14) * 0.1)
    assert not known


def test_a_target_that_nobody_measured_has_the_spread_of_documented_constants():
    """However well the model does elsewhere, and however well one series of versions fits."""
    rows = pool(0.01)
    unknown, extrapolated = half(rows, target="trn3")
    assert extrapolated
    assert unknown == pytest.approx(student(4) * UNCALIBRATED)
    versions = [residual(f"v{n}", 0.01, target="trn2", series="steps") for n in range(5)]
    assert half([*rows, *versions], target="trn2")[0] >= student(30) * UNCALIBRATED
    assert half(rows)[0] < UNCALIBRATED


def test_it_never_gets_narrower_than_what_two_equal_traces_measured():
    assert half(pool(0.001))[0] == pytest.approx(FLOOR)
    assert pytest.approx(0.0811, abs=1e-3) == FLOOR


def test_residuals_without_the_family_count_where_they_are_known():
    optimistic = [evolve(r, held_out_ms=r.measured_ms / exp(0.3)) for r in pool(0.01)]
    assert half(optimistic)[0] == pytest.approx(student(14) * 0.3)


@pytest.mark.parametrize(
    "changes",
    [
        {"bound": Bound.GPSIMD},
        {"bound": None},
        {"target": "trn2"},
        {"target": "trn3", "dialect": Dialect.CURRENT},
        {"dialect": Dialect.CURRENT},
        {"latency": 5.0},
        {"latency": 0.1},
        {"spill_share": 0.3},
    ],
)
def test_outside_the_measured_range_it_is_wider_and_says_so(changes):
    rows = pool(0.1)
    inside, extrapolated = half(rows)
    assert not extrapolated
    outside, extrapolated = half(rows, **changes)
    assert extrapolated
    assert outside > 1.8 * inside


@pytest.mark.parametrize("changes", [{"latency": 2.9}, {"latency": 0.4}, {"spill_share": 0.05}])
def test_within_it_nothing_changes(changes):
    assert half(pool(0.1), **changes) == pytest.approx(half(pool(0.1)))


def test_kernels_with_the_same_bound_weigh_more():
    rows = pool(0.05) + [residual(f"v{n}", 0.3, bound="vector") for n in range(10)]
    tensor, vector = half(rows)[0], half(rows, bound=Bound.VECTOR)[0]
    assert tensor < vector
    # One kernel alone moves little.
    one = [*pool(0.05), residual("v", 0.3, bound="vector")]
    assert half(one, bound=Bound.VECTOR)[1]


def test_versions_of_one_kernel_count_as_few():
    versions = [residual(f"s{n}", 0.4, series="s", family="s") for n in range(20)]
    alone, together = half(pool(0.1))[0], half(pool(0.1) + versions)[0]
    kernels = [residual(f"s{n}", 0.4) for n in range(int(SERIES_WEIGHT))]
    assert together == pytest.approx(half(pool(0.1) + kernels)[0])
    assert alone < together
    # And do not make a target known.
    rows = [residual(f"t{n}", 0.1, target="trn2", series="s") for n in range(5)]
    assert half(pool(0.1) + rows, target="trn2")[1]


def test_nothing_measured_still_gives_an_interval():
    width, extrapolated = half([])
    assert extrapolated
    assert width > 1


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(0.5, 3.078), (1, 3.078), (2.9, 1.886), (14, 1.356), (500, 1.310)]
)
def test_students_quantiles(freedom, quantile):
    assert student(freedom) == quantile


def test_coverage_takes_no_kernel_of_the_family():
    rows = [*pool(0.05), residual("odd", 0.5, family="odd"), residual("odd2", 0.5, family="odd")]
    found = {c.residual.kernel: c for c in coverage(rows)}
    assert not found["odd"].inside
    assert not found["odd2"].inside
    assert found["k0"].inside
    # With its relative in, its interval would have held it.
    assert half(rows)[0] < 0.5 < half([residual(f"o{n}", 0.5) for n in range(4)])[0]


def test_coverage_of_normal_residuals_is_about_the_level():
    import random

    inside = total = 0
    for seed in range(40):
        random.seed(seed)
        rows = [residual(f"k{n}", random.gauss(0, 0.15)) for n in range(14)]
        found = coverage(rows)
        inside += sum(c.inside for c in found)
        total += len(found)
    assert 0.74 < inside / total < 0.86


def test_the_calibration_file_is_complete():
    rows = residuals()
    assert len({r.kernel for r in rows}) == len(rows)
    assert sum(r.target == "trn1" and r.series is None for r in rows) == 14
    for row in rows:
        assert row.measured_ms > 0
        assert abs(row.log_ratio) < 0.5
        assert row.bound is None or Bound(row.bound)
        assert Dialect(row.dialect)
