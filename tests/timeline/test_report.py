"""Counters, attribution, uncertainty and export."""

from __future__ import annotations

import json

import pytest

from accelopt_lsp.nki import costs
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import BFLOAT16, FLOAT32
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.peak import matmul_peak
from accelopt_lsp.nki.profile import COUNTER_NAMES, Bound, Profile
from accelopt_lsp.profiler.simulator.timeline import profile_from, simulate, what_ifs
from accelopt_lsp.profiler.simulator.timeline.report import NOTHING
from accelopt_lsp.profiler.simulator.timeline.uncertainty import interval
from accelopt_lsp.profiler.simulator.trace import Trace
from tests.timeline.builder import TRN1, TRN2, Builder, rmsnorm, silu, tiled_matmul


def profile(trace: Trace, target=TRN1) -> Profile:
    return profile_from(simulate(trace, target), trace, kernel="kernel", target=target)


def test_counters_of_a_plain_matmul_are_exact():
    m, k, n = 512, 256, 1024
    trace = tiled_matmul(m, k, n, dialect=Dialect.CURRENT, target=TRN2)
    found = profile(trace, TRN2)
    tiles = (m // 128) * (n // 512) * (k // 128)
    counters = found.counters
    assert counters["hbm_read_bytes"] == tiles * 128 * (128 + 512) * 2
    assert counters["hbm_write_bytes"] == m * n * 2
    assert counters["hardware_flops"] == 2 * m * k * n
    assert counters["transpose_flops"] == 0
    assert counters["spill_save_bytes"] == 0
    assert counters["psum_write_bytes"] == tiles * 512 * 4
    assert counters["psum_read_bytes"] == (m // 128) * n * 4
    assert found.issued.hbm_read_bytes == counters["hbm_read_bytes"]
    assert found.issued.instructions["nc_matmul"] == tiles
    assert set(counters) == set(COUNTER_NAMES)


def test_fp32_products_count_twice():
    found = profile(tiled_matmul(128, 128, 512, FLOAT32))
    assert found.counters["hardware_flops"] == 2 * (2 * 128 * 128 * 512)
    assert found.issued.matmul_flops == 2 * 128 * 128 * 512


def test_repeated_loads_are_issued_but_not_executed():
    """The left tile of each row is loaded for every column of tiles, and merged."""
    trace = tiled_matmul(128, 128, 2048)
    found = profile(trace)
    assert found.issued.hbm_read_bytes == 4 * 128 * (128 + 512) * 2
    assert found.counters["hbm_read_bytes"] == 128 * (128 + 4 * 512) * 2


def test_compulsory_work_counts_each_tensor_once():
    m, k, n = 512, 256, 1024
    found = profile(tiled_matmul(m, k, n, dialect=Dialect.CURRENT, target=TRN2), TRN2)
    seconds = max(
        (m * k + k * n + m * n) * 2 / (TRN2["hbm_bandwidth"] * 1e9),
        2 * m * k * n / (TRN2["matmul_peak_16bit"] * 1e12),
    )
    assert found.percent_of_peak == pytest.approx(100 * seconds * 1e3 / found.latency_ms)
    assert found.percent_of_peak_basis == "compulsory"


@pytest.mark.parametrize("dtypes", [(BFLOAT16,), (FLOAT32,), (FLOAT32, BFLOAT16, BFLOAT16)])
def test_products_of_several_types_count_at_the_peak_of_each(dtypes):
    """A kernel of bfloat16 products with one in float32 is not one of float32 products."""
    b = Builder(Dialect.CURRENT, TRN2)
    psum = b.tensor((128, 512), FLOAT32, Buffer.PSUM)
    seconds = 0.0
    for line, dtype in enumerate(dtypes):
        left, right = b.tensor((128, 128), dtype), b.tensor((128, 512), dtype)
        for tile in (left, right):
            b.call(20, "nisa.memset", dst=tile, value=0.0)
        for _ in range(50):
            b.call(line, "nisa.nc_matmul", dst=psum, stationary=left, moving=right)
            seconds += 2 * 128 * 128 * 512 / matmul_peak(TRN2, dtype)
    found = profile(b.trace, TRN2)
    assert found.percent_of_peak == pytest.approx(100 * seconds * 1e3 / found.latency_ms)


def test_shares_are_fractions():
    found = profile(silu(512, 4096))
    for engine in ("tensor", "vector", "scalar", "gpsimd"):
        share = found.counters[f"{engine}_engine_active_time_percent"]
        assert 0 <= share <= 1
        if engine != "gpsimd":
            assert share == pytest.approx(found.engine_busy_ms[engine] / found.latency_ms)


def test_lines_account_for_everything():
    trace = silu(512, 4096)
    found = profile(trace)
    assert sum(line.instructions for line in found.lines) == len(trace)
    for engine, busy in found.engine_busy_ms.items():
        spent = sum(line.busy_ms for line in found.lines if line.engine == engine)
        assert spent == pytest.approx(busy)
    launch_ms = TRN1["launch_ns"] * 1e-6
    critical = sum(line.critical_ms for line in found.lines)
    assert critical == pytest.approx(found.latency_ms - launch_ms)


@pytest.mark.parametrize(
    ("trace", "bound"),
    [
        (lambda: tiled_matmul(2048, 2048, 2048, blocked=True), Bound.TENSOR),
        (lambda: rmsnorm(2048, 2048), Bound.DMA),
        (lambda: tiled_matmul(128, 128, 512), Bound.LATENCY),
    ],
)
def test_bound(trace, bound):
    assert profile(trace()).bound is bound


def test_no_total_is_given_over_an_unknown_instruction(monkeypatch):
    known = {name: f for name, f in costs.FORMULAS.items() if name != "reciprocal"}
    monkeypatch.setattr(costs, "FORMULAS", known)
    found = profile(silu(128, 1024))
    assert found.unknown_instructions == ("reciprocal",)
    assert found.latency_ms is None
    assert found.bound is None
    assert found.uncertainty is None
    assert set(found.engine_busy_ms) == {"tensor", "scalar", "gpsimd", "dma"}
    assert found.percent_of_peak is None
    assert found.counters["hbm_read_bytes"] == 128 * 1024 * 4
    assert found.counters["vector_engine_active_time_percent"] is None
    assert all(line.critical_ms is None for line in found.lines)
    assert {line.engine for line in found.lines if line.busy_ms is None} == {"vector"}
    assert all(line.busy_ms for line in found.lines if line.engine == "scalar")


def test_a_kernel_without_instructions_has_no_latency_and_says_why():
    trace = Trace(Dialect.LEGACY)
    schedule = simulate(trace, TRN1)
    tried = what_ifs(schedule)
    found = profile_from(schedule, trace, kernel="kernel", target=TRN1, what_ifs=tried)
    assert found.notes == (NOTHING,)
    unknown = ("latency_ms", "uncertainty", "bound", "percent_of_peak", "bounded_shares")
    assert [getattr(found, name) for name in (*unknown, "idle", "engines", "what_ifs")] == [
        None
    ] * 8


def test_profiles_become_json():
    data = json.loads(json.dumps(profile(silu(128, 1024)).to_json()))
    assert data["provenance"] == "simulated"
    assert data["uncertainty"]["low_ms"] < data["latency_ms"] < data["uncertainty"]["high_ms"]


def test_other_targets_are_extrapolated_and_wider():
    known = interval(1.0, target="trn1", dialect=Dialect.LEGACY, bound=Bound.TENSOR)
    other = interval(1.0, target="trn3", dialect=Dialect.CURRENT, bound=Bound.TENSOR)
    assert known.low_ms < 1.0 < known.high_ms
    assert not known.extrapolated
    assert other.extrapolated
    assert other.low_ms < known.low_ms
    assert other.high_ms > known.high_ms


def test_tensors_kept_in_hbm_count_as_spills():
    b = Builder()
    x, scratch, out = b.hbm((128, 512)), b.tensor((128, 512), buffer=Buffer.HBM), b.hbm((128, 512))
    tile = b.call(1, "nl.load", src=x)
    b.call(2, "nl.store", dst=scratch, value=tile)
    again = b.call(3, "nl.load", src=scratch)
    b.call(4, "nl.store", dst=out, value=again)
    schedule = simulate(b.trace, TRN1)
    counters = profile_from(schedule, b.trace, kernel="k", target=TRN1).counters
    size = 128 * 512 * 4
    assert (counters["spill_save_bytes"], counters["spill_reload_bytes"]) == (size, size)
    assert schedule.times.start[2] > schedule.times.end[1]
