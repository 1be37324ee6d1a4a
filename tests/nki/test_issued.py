"""Counting issued instructions, and the types that rooms exchange."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.costs import instruction_cost
from accelopt_lsp.nki.issued import count_issued
from accelopt_lsp.nki.profile import COUNTER_NAMES, Issued, Profile, Provenance, Uncertainty
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.nki.work import Work
from accelopt_lsp.nki.workload import Workload
from tests.nki.calls import LEGACY, call

TRN1 = get_target("trn1")
LOAD = call(LEGACY, "nl.load", "bf16[128,512]@hbm").issues[0]
STORE = call(LEGACY, "nl.store", "f32[128,512]@hbm", "f32[128,512]").issues[0]
PRODUCT = call(LEGACY, "nl.matmul", "bf16[128,128]", "bf16[128,512]", transpose_x=True).issues[0]
TRANSPOSE = call(LEGACY, "nl.transpose", "bf16[128,64]").issues[0]
EXP = call(LEGACY, "nl.exp", "f32[128,512]").issues[0]


def test_a_tiled_matrix_product_by_hand():
    """Two output tiles of four products each: loads, products, one store a tile."""
    issued = count_issued([(LOAD, 16), (PRODUCT, 8), (STORE, 2)], TRN1)
    assert issued.instructions == {"dma_copy": 18, "nc_matmul": 8}
    assert issued.total_instructions == 26
    assert issued.hbm_read_bytes == 16 * 128 * 512 * 2
    assert issued.hbm_write_bytes == 2 * 128 * 512 * 4
    assert issued.dma_descriptors == 18 * 128
    assert issued.matmul_flops == 8 * 2 * 128 * 128 * 512
    assert issued.transpose_flops == 0
    assert issued.engine_ns["tensor"] == pytest.approx(8 * 512 / 2.4)
    assert set(issued.engine_ns) == {"tensor", "dma"}


def test_transposes_are_counted_apart_from_products():
    issued = count_issued([(TRANSPOSE, 3)], TRN1)
    assert issued.matmul_flops == 0
    assert issued.transpose_flops == 3 * 2 * 128 * 128 * 64


def test_elements_are_partitions_times_free_size():
    assert count_issued([(EXP, 5)], TRN1).elements == {"activation": 5 * 128 * 512}


def test_a_transfer_on_few_engines_takes_its_share_of_the_dma_time():
    row = call(LEGACY, "nl.load", "f32[1,2048]@hbm").issues[0]
    cost = instruction_cost(row.op, row.engine, row.work, TRN1)
    assert cost is not None
    issued = count_issued([(row, 1)], TRN1)
    assert issued.engine_ns["dma"] == pytest.approx(cost.busy_ns / 16)


def test_an_instruction_without_a_cost_counts_everywhere_but_in_time():
    from attrs import evolve

    unknown = evolve(EXP, op="custom", work=Work(partitions=128, elements=512))
    issued = count_issued([(unknown, 2)], TRN1)
    assert issued.instructions == {"custom": 2}
    assert issued.elements == {"custom": 2 * 128 * 512}
    # The Scalar Engine's cost comes from the formula of the instruction, and it has none.
    assert issued.engine_ns == {}


@given(st.lists(st.tuples(st.sampled_from([LOAD, STORE, PRODUCT, EXP]), st.integers(1, 50))))
def test_counting_in_parts_adds_up(parts):
    whole = count_issued(parts, TRN1)
    pieces = [count_issued([part], TRN1) for part in parts]
    for name in ("hbm_read_bytes", "hbm_write_bytes", "dma_descriptors", "matmul_flops"):
        assert getattr(whole, name) == sum(getattr(p, name) for p in pieces)
    assert whole.total_instructions == sum(p.total_instructions for p in pieces)
    for engine, time in whole.engine_ns.items():
        assert time == pytest.approx(sum(p.engine_ns.get(engine, 0.0) for p in pieces))


def test_json_has_every_counter_and_null_for_what_is_unknown():
    profile = Profile(
        kernel="k",
        target="trn1",
        backend="simulator",
        provenance=Provenance.SIMULATED,
        latency_ms=None,
        unknown_instructions=("topk",),
        counters={"hbm_read_bytes": 1024.0},
        issued=Issued({"topk": 1}),
    )
    data = json.loads(json.dumps(profile.to_json(), allow_nan=False))
    assert data["schema_version"] == 1
    assert tuple(data["counters"]) == COUNTER_NAMES
    assert data["counters"]["hbm_read_bytes"] == 1024
    assert data["counters"]["hardware_flops"] is None
    assert data["latency_ms"] is None
    assert data["uncertainty"] is None
    assert data["provenance"] == "simulated"
    assert data["issued"]["instructions"] == {"topk": 1}


def test_uncertainty_in_json():
    profile = Profile(
        "k",
        "trn1",
        "simulator",
        Provenance.SIMULATED,
        1.0,
        uncertainty=Uncertainty(0.8, 1.3, extrapolated=True),
    )
    assert profile.to_json()["uncertainty"] == {
        "low_ms": 0.8,
        "high_ms": 1.3,
        "level": 0.8,
        "extrapolated": True,
    }


def test_a_workload_with_an_unknown_is_not_complete():
    assert Workload().complete
    assert not Workload(unknowns=((3, "a loop without a known end"),)).complete
