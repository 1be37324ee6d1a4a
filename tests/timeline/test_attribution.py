"""Where the time goes: bounded shares, idle gaps, achieved rates and what-ifs."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.profile import Bound, Resource, Wait
from accelopt_lsp.profiler.simulator.timeline import Schedule, profile_from, simulate, what_ifs
from accelopt_lsp.profiler.simulator.timeline.attribution import (
    bounded_shares,
    engine_uses,
    idle_gaps,
)
from accelopt_lsp.profiler.simulator.timeline.critical import Waits, critical_path
from accelopt_lsp.profiler.simulator.timeline.stream import COMPUTE_QUEUES, QUEUE_NAMES
from accelopt_lsp.profiler.simulator.timeline.whatif import repeated_loads
from accelopt_lsp.profiler.simulator.trace import Trace
from tests.timeline.builder import TRN1, TRN2, Builder, rmsnorm, silu, tiled_matmul
from tests.timeline.test_laws import TRACES

BOUNDS = {
    "tensor": (lambda: tiled_matmul(2048, 2048, 2048, blocked=True), Resource.TENSOR),
    "dma": (lambda: rmsnorm(2048, 2048), Resource.DMA_BANDWIDTH),
    "vector": (lambda: silu(2048, 4096), Resource.VECTOR),
    "alone": (lambda: tiled_matmul(128, 128, 512), Resource.LAUNCH),
}


@pytest.fixture(params=sorted(TRACES))
def schedule(request: pytest.FixtureRequest) -> Schedule:
    trace, target = TRACES[request.param]()
    return simulate(trace, target)


def test_bounded_shares_add_up_to_the_latency(schedule):
    path = critical_path(schedule)
    assert sum(path.by_resource.values()) == pytest.approx(schedule.latency_ns)
    shares = bounded_shares(path)
    assert set(shares) == {resource.value for resource in Resource}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert all(0.0 <= share <= 1.0 for share in shares.values())


def test_the_path_has_no_gaps(schedule):
    path = critical_path(schedule)
    for later, earlier in pairwise(path.pieces):
        assert later[2] == earlier[3]
    assert path.pieces[0][3] == schedule.latency_ns
    assert path.pieces[-1][2] == 0.0


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_what_bounds_most_of_the_time(name):
    trace, resource = BOUNDS[name]
    shares = bounded_shares(critical_path(simulate(trace(), TRN1)))
    assert max(shares, key=shares.__getitem__) == resource.value


def test_no_engine_bounds_more_time_than_it_works(schedule):
    """Stationary loads and throttling included, as the schedule counts them."""
    path = critical_path(schedule)
    for engine in ("tensor", "vector", "scalar", "gpsimd"):
        busy = schedule.engine_busy_ns[engine]
        assert path.by_resource[Resource(engine)] <= busy * (1 + 1e-9) + 1e-3


def test_idle_and_busy_time_of_an_engine_add_up_to_the_latency(schedule):
    gaps = idle_gaps(schedule, Waits(schedule))
    times, stream = schedule.times, schedule.stream
    for queue in range(COMPUTE_QUEUES):
        members = [i for i, code in enumerate(stream.codes) if stream.ops[code].queue == queue]
        if members:
            busy = sum(times.end[i] - times.start[i] for i in members)
            idle = sum(g.total_ms for g in gaps if g.engine == QUEUE_NAMES[queue]) * 1e6
            assert busy + idle == pytest.approx(schedule.latency_ns, rel=1e-6)
    assert [g.total_ms for g in gaps] == sorted((g.total_ms for g in gaps), reverse=True)
    assert all(g.largest_ms <= g.total_ms and g.count > 0 for g in gaps)


def test_gaps_name_what_was_waited_for():
    """Scalar waits for loads, and loads for the places of tiles that are still in use."""
    found = profile(silu(512, 4096))
    causes = {(g.engine, g.wait, g.on, g.line) for g in found.idle}
    assert ("scalar", Wait.DATA, "dma", 1) in causes
    assert ("dma", Wait.ROOM, "vector", 5) in causes
    assert ("dma", Wait.LAUNCH, None, None) in causes
    assert ("scalar", Wait.END, None, None) in causes


def test_a_single_place_makes_room_the_obstacle():
    """All steps of a tile take turns with the load of the next where two tiles fill SBUF."""
    b = Builder()
    columns = 22 * 1024
    x, out = b.hbm((8 * 128, columns)), b.hbm((8 * 128, columns))
    for i in range(8):
        tile = b.tensor((128, columns), site=1)
        b.call(1, "nl.load", into=tile, src=x.rows(i * 128, i * 128 + 128))
        result = b.tensor((128, columns), site=2)
        b.call(2, "nl.exp", into=result, x=tile)
        b.call(3, "nl.store", dst=out.rows(i * 128, i * 128 + 128), value=result)
    schedule = simulate(b.trace, TRN1)
    shares = bounded_shares(critical_path(schedule))
    free = next(w for w in what_ifs(schedule) if w.change == "unlimited_buffers")
    assert shares["room"] > 0.1
    assert free.speedup > 1.1
    assert any(g.wait is Wait.ROOM for g in idle_gaps(schedule, Waits(schedule)))


def test_no_engine_achieves_more_than_is_attainable(schedule):
    uses = engine_uses(schedule)
    assert uses
    for use in uses:
        assert 0 < use.achieved <= use.attainable * (1 + 1e-9), use
        assert 0 < use.busy <= 1 + 1e-9
        assert (use.mean_bytes is not None) == (use.engine == "dma")


def test_achieved_rates_of_a_plain_matmul():
    m, k, n = 512, 256, 1024
    schedule = simulate(tiled_matmul(m, k, n, dialect=Dialect.CURRENT, target=TRN2), TRN2)
    uses = {use.engine: use for use in engine_uses(schedule)}
    tensor, dma = uses["tensor"], uses["dma"]
    flops = tensor.achieved * tensor.busy * schedule.latency_ns * 1e-9
    assert flops == pytest.approx(2 * m * k * n)
    assert tensor.attainable == pytest.approx(TRN2["matmul_peak_16bit"] * 1e12)
    assert dma.attainable == pytest.approx(TRN2["dma_engines"] * TRN2["dma_engine_rate"] * 1e9)
    tiles = (m // 128) * (n // 512) * (k // 128)
    loads = tiles * 128 * (256 + 1024), 2 * tiles * 128
    stores = m * n * 2, (m // 128) * (n // 512) * 128
    assert dma.mean_bytes == pytest.approx((loads[0] + stores[0]) / (loads[1] + stores[1]))


def test_what_ifs_never_take_longer(schedule):
    found = what_ifs(schedule)
    assert found
    for what_if in found:
        assert what_if.latency_ms <= schedule.latency_ns * 1e-6 * (1 + 1e-12)
        assert what_if.speedup >= 1.0
    assert [w.latency_ms for w in found] == sorted(w.latency_ms for w in found)


def test_without_launch_exactly_the_launch_is_saved(schedule):
    found = next(w for w in what_ifs(schedule) if w.change == "launch_free")
    saved = schedule.latency_ns * 1e-6 - found.latency_ms
    assert saved == pytest.approx(schedule.target["launch_ns"] * 1e-6, rel=1e-6)


def test_the_bottleneck_is_what_helps_most():
    spared = {
        name: next(iter(what_ifs(simulate(trace(), TRN1)))).change
        for name, (trace, _) in BOUNDS.items()
        if name in ("dma", "vector")
    }
    assert spared == {"dma": "dma_free", "vector": "vector_scalar_free"}


def test_products_at_peak_need_the_peak_time():
    schedule = simulate(tiled_matmul(512, 512, 1024, FLOAT32), TRN1)
    found = next(w for w in what_ifs(schedule) if w.change == "tensor_only")
    peak_ms = 2 * 512 * 512 * 1024 / (TRN1["matmul_peak_fp32"] * 1e12) * 1e3
    assert found.latency_ms == pytest.approx(TRN1["launch_ns"] * 1e-6 + peak_ms)


def test_hoisting_is_tried_for_what_is_loaded_again():
    """The left tile of a row of tiles is loaded for every column of them."""
    trace = tiled_matmul(256, 256, 2048, dialect=Dialect.CURRENT, target=TRN2)
    schedule = simulate(trace, TRN2)
    assert set(repeated_loads(schedule)) == {2, 3}
    lines = {w.line for w in what_ifs(schedule) if w.change == "load_hoisted"}
    assert lines == {2, 3}
    once = simulate(rmsnorm(512, 1024), TRN1)
    assert repeated_loads(once) == []


def test_spills_are_tried_only_where_there_are_some():
    spilling, _ = TRACES["spilling"]()
    without = next(w for w in what_ifs(simulate(spilling, TRN1)) if w.change == "no_spills")
    assert without.speedup > 1.05
    assert "no_spills" not in {w.change for w in what_ifs(simulate(silu(512, 4096), TRN1))}


def test_progress_tells_what_is_tried():
    told: list[tuple[str, float]] = []
    found = what_ifs(
        simulate(silu(128, 1024), TRN1), lambda message, share: told.append((message, share))
    )
    assert len(told) == len(found)
    assert [share for _, share in told] == sorted(share for _, share in told)
    assert all(message.startswith("what if ") for message, _ in told)


def test_an_empty_kernel_has_only_its_launch():
    schedule = simulate(Trace(Dialect.LEGACY), TRN1)
    path = critical_path(schedule)
    assert path.by_resource[Resource.LAUNCH] == schedule.latency_ns
    assert idle_gaps(schedule, Waits(schedule)) == ()
    assert engine_uses(schedule) == ()


def profile(trace: Trace):
    return profile_from(simulate(trace, TRN1), trace, kernel="kernel", target=TRN1)


def test_attribution_becomes_json():
    data = json.loads(json.dumps(profile(silu(512, 4096)).to_json()))
    assert sum(data["bounded_shares"].values()) == pytest.approx(1.0)
    assert data["idle"][0]["wait"] in set(Wait)
    assert {use["engine"] for use in data["engines"]} == {"vector", "scalar", "dma"}
    assert data["what_ifs"] is None
    assert data["cached"] is False
    assert data["bound"] in set(Bound)
