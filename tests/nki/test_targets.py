"""Hardware as data: every constant has a unit, a source and a status."""

from __future__ import annotations

import itertools

import pytest

from accelopt_lsp.nki.targets import get_target, target_names

ALL = [get_target(n) for n in target_names()]
ABSENT_LATER = {"sbuf_port_shared", "psum_port_shared"}
"""Restrictions of NeuronCore-v2 that later ones lift: what has no constant is not in force."""
REQUIRED = set(get_target("trn1").constants) - ABSENT_LATER
STATUSES = {"documented", "derived", "calibrated"}


def test_three_generations():
    assert target_names() == ("trn1", "trn2", "trn3")
    assert [t.generation for t in ALL] == [2, 3, 4]


@pytest.mark.parametrize("target", ALL, ids=lambda t: t.name)
def test_constants_have_unit_source_and_status(target):
    for name, constant in target.constants.items():
        assert constant.unit, name
        assert len(constant.source) > 5, name
        assert constant.status in STATUSES, name
        assert constant.value > 0, name


@pytest.mark.parametrize("target", ALL, ids=lambda t: t.name)
def test_generations_record_the_same_constants(target):
    assert REQUIRED - set(target.constants) == set()


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.combinations(ALL, 2)), ids=lambda t: t.name
)
def test_units_agree_between_generations(first, second):
    for name in set(first.constants) & set(second.constants):
        assert first.constants[name].unit == second.constants[name].unit, name


@pytest.mark.parametrize("target", ALL, ids=lambda t: t.name)
def test_derived_figures_follow_from_documented_ones(target):
    lanes = target["partitions"]
    assert target["psum_partition_bytes"] == target["psum_banks"] * target["psum_bank_bytes"]
    assert target["vector_peak"] == pytest.approx(2 * lanes * target["vector_clock"], rel=1e-3)
    # Multiplying and adding on 128 x 128 cells at the documented clock.
    peak = 2 * 128 * 128 * target["pe_clock"] / 1e3
    assert target["matmul_peak_16bit"] == pytest.approx(peak, rel=1e-3)


def test_memory_sizes_are_the_documented_totals():
    mebibytes = {t.name: t["sbuf_partition_bytes"] * t["partitions"] / 2**20 for t in ALL}
    assert mebibytes == {"trn1": 24, "trn2": 28, "trn3": 32}


@pytest.mark.parametrize(
    ("alias", "name"),
    [("TRN1", "trn1"), ("gen2", "trn1"), ("inf2", "trn1"), ("gen3", "trn2"), ("gen4", "trn3")],
)
def test_aliases(alias, name):
    assert get_target(alias) == get_target(name)


@pytest.mark.parametrize("name", ["", "trn9", "gpu"])
def test_unknown_target_lists_the_known_ones(name):
    with pytest.raises(ValueError, match="known: trn1, trn2, trn3"):
        get_target(name)


def test_a_constant_no_source_gives_is_none_and_not_zero():
    target = get_target("trn1")
    assert target.get("pe_warmup_ns") is None
    with pytest.raises(KeyError):
        target["pe_warmup_ns"]
