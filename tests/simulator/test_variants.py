"""One trace, many schedules: overrides and answers are checked on both sides."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import attrs
import pytest
from attrs import evolve

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.profile import Bound, Profile
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.base import Failure, FailureKind
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.profiler.simulator.timeline.policy import POLICIES, ablations
from accelopt_lsp.profiler.simulator.timeline.schedule import retarget, simulate
from accelopt_lsp.profiler.simulator.variants import (
    Variant,
    VariantError,
    only_costs,
    variant_from_dict,
    variant_profile_from_dict,
    varied_policy,
    varied_target,
)
from tests.simulator.helpers import FOLDER, job, profile
from tests.timeline.builder import Builder, silu, tiled_matmul

TRN1 = get_target("trn1")
LEGACY = POLICIES[Dialect.LEGACY]
SILU = job(FOLDER / "kernels" / "legacy" / "silu.py", {"x": "f32[8,128,512]"})


def _vary(*variants: Variant) -> Any:
    return asyncio.run(SimulatorProfiler().vary(SILU, variants))


def test_each_variant_is_answered_in_order() -> None:
    found = _vary(
        Variant(),
        Variant(constants={"launch_ns": TRN1["launch_ns"] + 5000}),
        Variant(constants={"dma_engine_rate": TRN1["dma_engine_rate"] / 4}),
        Variant(policy={"window": 0, "buffering": 1}),
        Variant(),
    )
    expected = profile(SILU)
    assert isinstance(expected, Profile)
    plain, later, slow, strict, again = found
    assert plain == again
    assert plain.latency_ms == expected.latency_ms
    assert plain.bound is expected.bound
    assert plain.engine_busy_ms == expected.engine_busy_ms
    assert plain.counters == expected.counters
    assert later.latency_ms == pytest.approx(plain.latency_ms + 0.005)
    assert slow.engine_busy_ms["dma"] > 3 * plain.engine_busy_ms["dma"]
    assert slow.engine_busy_ms["vector"] == plain.engine_busy_ms["vector"]
    assert strict.latency_ms > plain.latency_ms
    assert strict.counters["hbm_read_bytes"] == plain.counters["hbm_read_bytes"]


HOSTILE_CONSTANTS = [
    {"no_such_constant": 1.0},
    {"title": 1.0},
    {"launch_ns": "14000"},
    {"launch_ns": True},
    {"launch_ns": None},
    {"launch_ns": float("nan")},
    {"launch_ns": float("inf")},
    {"launch_ns": -1.0},
    {"launch_ns": 1e12},
    {"dma_engine_rate": 0.0},
    {"vector_clock": 1e-9},
    {"dma_engines": 16.5},
    {"dma_engines": 0},
    {"dma_engines": 1_000_000_000},
    {"psum_banks": 1 << 40},
]
HOSTILE_RULES = [
    {"no_such_rule": True},
    {"__class__": 1},
    {"merges": 1},
    {"merges": "False"},
    {"window": True},
    {"window": 16.0},
    {"window": -1},
    {"window": 1 << 60},
    {"buffering": [2]},
]


@pytest.mark.parametrize("constants", HOSTILE_CONSTANTS, ids=repr)
def test_constants_that_no_machine_has_are_rejected(constants: dict[str, Any]) -> None:
    with pytest.raises(VariantError):
        varied_target(TRN1, Variant(constants=constants))
    with pytest.raises(VariantError):
        _vary(Variant(constants=constants))


@pytest.mark.parametrize("policy", HOSTILE_RULES, ids=repr)
def test_rules_of_another_kind_are_rejected(policy: dict[str, Any]) -> None:
    with pytest.raises(VariantError):
        varied_policy(LEGACY, Variant(policy=policy))


def test_the_child_rejects_them_too() -> None:
    found = _vary(Variant(), Variant(policy={"merges": 1}))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.ARGUMENTS
    assert "merges" in found.message


@pytest.mark.parametrize(
    "data",
    [None, [], "x", {"constants": []}, {"policy": None}, {"code": "1"}, {"constants": {1: 2}}],
    ids=repr,
)
def test_a_variant_of_another_form_is_rejected(data: Any) -> None:
    with pytest.raises(VariantError):
        variant_from_dict(data)


def test_a_variant_survives_the_wire() -> None:
    variant = Variant({"launch_ns": 1.5}, {"merges": False, "window": 3})
    assert variant_from_dict(json.loads(json.dumps(attrs.asdict(variant)))) == variant


ANSWER = {
    "latency_ms": 1.0,
    "bound": "vector",
    "engine_busy_ms": {"vector": 0.5},
    "counters": {"hbm_read_bytes": 4096, "no_counter": 1},
}


def test_an_answer_is_read() -> None:
    found = variant_profile_from_dict(ANSWER)
    assert (found.latency_ms, found.bound) == (1.0, Bound.VECTOR)
    assert found.counters == {"hbm_read_bytes": 4096}


@pytest.mark.parametrize(
    "change",
    [
        {"latency_ms": "1"},
        {"latency_ms": float("nan")},
        {"latency_ms": -1.0},
        {"bound": "nothing"},
        {"engine_busy_ms": None},
        {"engine_busy_ms": {"vector": [1]}},
        {"counters": {"hbm_read_bytes": True}},
        {"counters": 3},
    ],
    ids=repr,
)
def test_answers_that_are_none_are_rejected(change: dict[str, Any]) -> None:
    with pytest.raises(VariantError):
        variant_profile_from_dict({**ANSWER, **change})


def test_targets_with_other_constants_are_other_targets() -> None:
    changed = TRN1.with_constants({"launch_ns": 1.0})
    assert changed != TRN1
    assert changed["launch_ns"] == 1.0
    assert get_target("trn1") == TRN1
    assert changed.with_constants({"launch_ns": TRN1["launch_ns"]}) == TRN1
    with pytest.raises(KeyError):
        TRN1.with_constants({"nothing": 1.0})


def test_every_rule_can_be_switched_off() -> None:
    rules = ablations(LEGACY)
    assert {r.name for r in rules} >= {"merges", "window"}
    for rule in rules:
        changed = varied_policy(LEGACY, Variant(policy={rule.name: rule.off}))
        assert getattr(changed, rule.name) == rule.off
        assert evolve(changed, **{rule.name: getattr(LEGACY, rule.name)}) == LEGACY
    assert not [r for r in ablations(POLICIES[Dialect.CURRENT]) if r.name == "merges"]


def test_every_field_of_the_policy_declares_what_it_is_without() -> None:
    for rule in attrs.fields(type(LEGACY)):
        assert rule.metadata.get("title"), rule.name
        assert "off" in rule.metadata, rule.name


def _overflowing() -> Any:
    """More tiles alive at once than SBUF holds: spills and re-loads."""
    b = Builder()
    x, out = b.hbm((40 * 128, 2048)), b.hbm((40 * 128, 2048))
    rows = [(128 * n, 128 * n + 128) for n in range(40)]
    tiles = [b.call(1, "nl.load", src=x.rows(*where)) for where in rows]
    doubled = [b.call(2, "nl.add", x=tile, y=tile) for tile in tiles]
    for where, tile in zip(rows, doubled, strict=True):
        b.call(3, "nl.store", dst=out.rows(*where), value=tile)
    return b.trace


CHANGES = {
    "dma_completion_ns": 1300.0,
    "dma_engine_rate": 17.0,
    "vector_issue_ns": 71.0,
    "scalar_psum_issue_ns": 30.0,
    "semaphore_ns": 90.0,
}


@pytest.mark.parametrize(
    "make", [lambda: silu(512, 4096), lambda: tiled_matmul(512, 512, 1024), _overflowing],
    ids=["silu", "matmul", "spills"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["trn1", "trn2"])
def test_other_costs_need_only_new_times(make: Any, name: str) -> None:
    trace, target = make(), get_target(name)
    changed = target.with_constants(CHANGES)
    plain, expected = simulate(trace, target), simulate(trace, changed)
    for found, wanted in ((retarget(plain, target), plain), (retarget(plain, changed), expected)):
        assert found.times == wanted.times
        assert found.engine_busy_ns == wanted.engine_busy_ns
        assert found.target == wanted.target
    assert expected.latency_ns != plain.latency_ns
    assert (plain.spill_save_bytes > 0) is (make is _overflowing)


def test_numbers_of_things_are_no_costs() -> None:
    assert only_costs(TRN1, Variant(constants={"launch_ns": 1.0, "dma_engine_rate": 2.0}))
    assert not only_costs(TRN1, Variant(constants={"launch_ns": 1.0, "psum_banks": 4}))
