"""Statistics, and what a comparison with measured kernels must reach."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.profile import Uncertainty
from accelopt_lsp.nki.traffic import spill_share
from accelopt_lsp.profiler.comparison import (
    Comparison,
    criteria,
    pairs,
    rankable,
    ranks,
    spearman,
    summarize,
)
from accelopt_lsp.profiler.measured import (
    MeasuredError,
    MeasuredKernel,
    Use,
    chosen,
    listing,
    parse_measured,
    published,
)

CLEAN = {
    "hbm_read_bytes": 1000.0,
    "hbm_write_bytes": 1000.0,
    "spill_save_bytes": 0.0,
    "spill_reload_bytes": 0.0,
    "hardware_flops": 1e6,
    "transpose_flops": 0.0,
    "vector_engine_active_time_percent": 0.5,
}


def kernel(name="k", measured=1.0, counters=None, **changes):
    fields = {
        "kernel": name,
        "checkout": "accelopt",
        "file": f"{name}.py",
        "target": "trn1",
        "dialect": Dialect.LEGACY,
        "measured_ms": measured,
        "use": Use.CALIBRATION,
        "counters": CLEAN if counters is None else counters,
    }
    return MeasuredKernel(**{**fields, **changes})


def row(name="k", measured=1.0, simulated=1.0, found=None, **changes):
    of = kernel(name, measured, **changes)
    counters = of.counters if found is None else {**of.counters, **found}
    return Comparison(of, simulated, counters=counters)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        ([5.0], [1]),
        ([3, 1, 2], [3, 1, 2]),
        ([1, 1, 2], [1.5, 1.5, 3]),
        ([2, 2, 2, 2], [2.5, 2.5, 2.5, 2.5]),
    ],
)
def test_ranks(values, expected):
    assert ranks(values) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], 0.8),
        ([1, 2, 3], [1, 3, 2], 0.5),
        # With ties: Pearson's correlation of the mean ranks.
        ([1, 1, 2, 3], [1, 2, 3, 4], pytest.approx(0.9486833)),
        ([1, 2], [1, 2], None),
        ([1, 1, 1], [1, 2, 3], None),
    ],
)
def test_spearman(first, second, expected):
    assert spearman(first, second) == expected


def test_summary_is_of_what_has_a_latency():
    rows = [row("a", 1, 1.02), row("b", 2, 1.8), row("c", 4, 4.4), row("d", 8, None)]
    found = summarize(rows)
    assert (found.count, found.total) == (3, 4)
    assert found.mean == pytest.approx((0.02 + 0.1 + 0.1) / 3)
    assert found.median == pytest.approx(0.1)
    assert found.largest == pytest.approx(0.1)
    assert found.spearman == 1.0
    assert summarize([]).mean is None


def test_intervals_that_hold_are_counted():
    held = evolve(row("a", 1.0), uncertainty=Uncertainty(0.9, 1.1))
    missed = evolve(row("b", 2.0), uncertainty=Uncertainty(0.9, 1.1))
    assert (held.inside, missed.inside, row().inside) == (True, False, None)
    assert summarize([held, missed, row()]).inside == 1


@pytest.mark.parametrize(
    ("counters", "share"),
    [
        (CLEAN, 0.0),
        ({**CLEAN, "spill_save_bytes": 100.0, "spill_reload_bytes": 300.0}, 0.2),
        ({"hbm_read_bytes": 1.0}, None),
        ({**CLEAN, "spill_save_bytes": None}, None),
        (dict.fromkeys(CLEAN, 0.0), 0.0),
    ],
)
def test_share_of_spills(counters, share):
    assert spill_share(counters) == share


def _verdict(name, *rows):
    [found] = [c for c in criteria(rows) if c.name == name]
    return found


LATENCY = "latency error, {}"
SPILLING = {**CLEAN, "spill_save_bytes": 200.0, "spill_reload_bytes": 200.0}
A_LITTLE = {**CLEAN, "spill_save_bytes": 40.0, "spill_reload_bytes": 40.0}


@pytest.mark.parametrize(
    ("name", "rows", "met"),
    [
        (LATENCY.format("mean"), [row("a", 1, 1.0), row("b", 1, 1.07)], True),
        (LATENCY.format("mean"), [row("a", 1, 1.0), row("b", 1, 0.91)], False),
        (LATENCY.format("median"), [row("a", 1, 1.03), row("b", 1, 1.03)], True),
        (LATENCY.format("median"), [row("a", 1, 1.05), row("b", 1, 1.03)], False),
        (LATENCY.format("largest"), [row("a", 1, 1.099)], True),
        (LATENCY.format("largest"), [row("a", 1, 0.89)], False),
        # A kernel without a latency is no reason to be content.
        (LATENCY.format("largest"), [row("a", 1, 1.0), row("b", 1, None)], False),
        ("HBM bytes without spills", [row(found={"hbm_read_bytes": 1090.0})], True),
        ("HBM bytes without spills", [row(found={"hbm_read_bytes": 1110.0})], False),
        ("HBM bytes with spills", [row(counters=SPILLING, found={"hbm_read_bytes": 600.0})], True),
        ("HBM bytes with spills", [row(counters=SPILLING, found={"hbm_read_bytes": 400.0})], False),
        ("HBM bytes with spills", [row()], None),
        ("kernels that spill", [row(counters=SPILLING)], True),
        ("kernels that spill", [row(counters=SPILLING, found=CLEAN)], False),
        ("kernels that spill", [row(found=SPILLING)], False),
        # A few percent may be missed, and may be found.
        ("kernels that spill", [row(), row("b", counters=A_LITTLE, found=CLEAN)], True),
        ("kernels that spill", [row(), row("b", counters=A_LITTLE, found=SPILLING)], True),
        ("hardware_flops", [row(found={"hardware_flops": 1.009e6})], True),
        ("hardware_flops", [row(found={"hardware_flops": 0.98e6})], False),
        ("transpose_flops", [row(found={"transpose_flops": 1.0})], False),
        (
            "vector_engine_active_time",
            [row(found={"vector_engine_active_time_percent": 0.559})],
            True,
        ),
        (
            "vector_engine_active_time",
            [row(found={"vector_engine_active_time_percent": 0.43})],
            False,
        ),
    ],
)
def test_criteria(name, rows, met):
    assert _verdict(name, *rows).met is met


def test_a_miss_names_the_kernel_and_its_figure():
    found = _verdict(
        "HBM bytes without spills",
        row("good"),
        row("bad", found=SPILLING | {"hbm_read_bytes": 2000.0}),
    )
    assert found.misses == ("bad +50.0%",)


def test_kernels_that_failed_miss_everything_that_asks_for_each():
    failed = Comparison(kernel("broken"), None, failure="no such thing")
    assert not _verdict("hardware_flops", row(), failed).met
    assert _verdict("hardware_flops", row(), failed).misses == ("broken failed",)


def test_shares_that_nobody_measured_are_not_asked_for():
    names = {c.name for c in criteria([row()])}
    assert "vector_engine_active_time" in names
    assert "tensor_engine_active_time" not in names


CHECKED = {"use": Use.CHECK, "series": "steps", "counters": {}}


def test_kernels_that_only_check_have_criteria_of_their_own():
    rows = [row("v1", 1.0, 1.1, **CHECKED), row("v2", 2.0, 2.4, **CHECKED)]
    found = {c.name: c for c in criteria(rows)}
    assert set(found) == {"latency, steps", "order, steps"}
    assert found["latency, steps"].misses == ("v2 +20.0%",)
    assert found["order, steps"].met


@pytest.mark.parametrize(
    ("measured", "simulated", "met"),
    [
        ((1.0, 1.2), (1.0, 1.1), True),
        ((1.0, 1.2), (1.1, 1.0), False),
        ((1.0, 1.2), (1.0, 1.0), False),
        # Closer than 5 %: no order to keep.
        ((1.0, 1.04), (1.1, 1.0), None),
    ],
)
def test_order_of_versions(measured, simulated, met):
    rows = [
        row(f"v{n}", m, s, **CHECKED)
        for n, (m, s) in enumerate(zip(measured, simulated, strict=True))
    ]
    assert _verdict("order, steps", *rows).met is met


def test_pairs_are_of_one_series_only():
    rows = [
        row("a1", 1.0, 1.0, **CHECKED),
        row("a2", 1.5, 1.4, **CHECKED),
        row("b1", 2.0, 2.0, use=Use.CHECK, series="others", counters={}),
        row("c", 3.0, 3.0),
    ]
    [found] = pairs(rows)
    assert (found.first, found.second, found.kept) == ("a1", "a2", True)
    assert found.step == pytest.approx(0.5)


def test_published_kernels_have_all_their_figures():
    known = published()
    fitted = [k for k in known if k.use is Use.CALIBRATION]
    assert len(fitted) == 14
    assert {k.family for k in fitted} == {
        "matmul", "norm+matmul", "attention", "element-wise", "scan",
    }  # fmt: skip
    assert sum((k.spill_share or 0) == 0 for k in fitted) == 8
    assert all("hfu_estimated_percent" in k.counters for k in fitted)
    assert {k.series for k in known if k.use is Use.CHECK} == {
        "mamba tutorial", "trn2 matmul steps",
    }  # fmt: skip


GOOD = (
    '{"schema_version": 1, "source": "me", "kernels": [{"kernel": "k", "file": "k.py", '
    '"target": "gen2", "dialect": "legacy", "measured_ms": 1.5}]}'
)


def test_a_file_of_ones_own_is_for_checking_unless_it_says_otherwise():
    [found] = parse_measured(GOOD, "mine")
    assert (found.target, found.use, found.measured_ms) == ("trn1", Use.CHECK, 1.5)
    assert parse_measured(GOOD.replace('"me",', '"me", "use": "calibration",'), "mine")[0].use is (
        Use.CALIBRATION
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("{", "[", "no file of measured kernels"),
        (GOOD, "[]", "not one JSON object"),
        ('"file"', '"path"', "no 'file'"),
        ("gen2", "gen9", "gen9"),
        ("legacy", "basic", "basic"),
        ("1.5", "-1", "-1"),
        ("1.5", "NaN", "nan"),
        ("1.5", '1.5, "counters": {"hbm_bytes": 3}', "hbm_bytes"),
        ("1.5", '1.5, "counters": {"hbm_read_bytes": "many"}', "many"),
        ('"me",', '"me", "use": "fun",', "fun"),
    ],
)
def test_files_that_are_none(old, new, says):
    with pytest.raises(MeasuredError, match=says):
        parse_measured(GOOD.replace(old, new, 1), "mine")


def test_only_known_kernels_can_be_chosen():
    kernels = [kernel("a"), kernel("b"), kernel("c", checkout="sdk")]
    places = {"accelopt": Path("x"), "sdk": None}
    assert [k.kernel for k in chosen(kernels, (), places)] == ["a", "b"]
    assert [k.kernel for k in chosen(kernels, ("b",), places)] == ["b"]
    with pytest.raises(MeasuredError, match="known: a, b, c"):
        chosen(kernels, ("d",), places)


PAGE = """
Steps
=====

.. code-block:: python
   :linenos:

   def other(): pass

.. code-block:: python

   import nki

   def kernel(x):
       return 1

Text.

.. code-block:: python

   def kernel(x):
       return 2
"""


def test_listings_are_counted_by_the_function_that_they_define():
    assert listing(PAGE, "kernel", 1) == "import nki\n\ndef kernel(x):\n    return 1\n"
    assert listing(PAGE, "kernel", 2) == "def kernel(x):\n    return 2\n"
    with pytest.raises(MeasuredError, match="the page has 2"):
        listing(PAGE, "kernel", 3)


@pytest.mark.parametrize(
    ("first", "second", "decided"),
    [(1.0, 1.2, True), (1.2, 1.0, True), (1.0, 1.04, False), (1.0, 1.0, False), (None, 1.0, None)],
)
def test_close_latencies_cannot_be_ranked(first, second, decided):
    assert rankable(first, second) is decided
