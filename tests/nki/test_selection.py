# ruff: noqa: E501 - one row of a table stays on one line
"""Selections, searches and gathers: from calls to instructions, and what is rejected."""

from __future__ import annotations

from typing import Any

import pytest

from accelopt_lsp.nki.costs import instruction_cost
from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.nki.lowering import Lowered, LoweringError
from accelopt_lsp.nki.operands import Condition, Pattern
from accelopt_lsp.nki.targets import get_target
from tests.nki.calls import CURRENT, LEGACY, call, codes, summary, t

TILE, COLUMN, PSUM, EIGHT = "f32[128,512]", "f32[128,1]", "f32[128,512]@psum", "f32[128,8]"
BYTES, HALVES, WORDS = "u8[128,512]", "u16[128,512]", "u32[128,512]"
F32, BF16, I32, U16 = (get_dtype(n) for n in ("f32", "bf16", "i32", "u16"))
LOWEST = -3.4028234663852886e38

ROWS, COLUMNS = Pattern((128, 1), (1, 0), 0), Pattern((1, 512), (0, 1), 0)
"""``nl.arange(128)[:, None]`` and ``nl.arange(512)[None, :]``."""
BELOW = Condition((Pattern((128, 512), (1, -1), 0),))
"""``rows >= columns``."""
DIAGONAL = Condition((Pattern((128, 512), (1, -1), 0), Pattern((128, 512), (-1, 1), 0)))
BETWEEN = {"comp_op0": "greater_equal", "comp_op1": "less", "bound0": COLUMN, "bound1": COLUMN}
RANGE = {"on_true_tile": TILE, **BETWEEN}
CHOICE = {"dst": TILE, "predicate": BYTES, "on_true": TILE, "on_false": 0.0}

# (dialect, call, arguments, keywords, issued instructions, result)
CALLS: list[tuple[Any, ...]] = [
    (LEGACY, "nisa.iota", [COLUMNS, I32], {}, ["iota@gpsimd"], "i32[1,512]"),
    (LEGACY, "nisa.iota", [ROWS, F32], {}, ["iota@gpsimd"], "f32[128,1]"),
    (CURRENT, "nisa.iota", ["i32[128,512]", ((1, 512),)], {}, ["iota@gpsimd"], None),
    (LEGACY, "nisa.affine_select", [BELOW, TILE, 0.0], {}, ["affine_select@gpsimd"], TILE),
    (LEGACY, "nisa.affine_select", [BELOW, PSUM, 0.0], {"dtype": BF16}, ["tensor_copy@scalar", "affine_select@gpsimd"], "bf16[128,512]"),
    (CURRENT, "nisa.affine_select", [TILE, ((-1, 512),), 1, TILE, 0.0], {}, ["affine_select@gpsimd"], None),
    (LEGACY, "nisa.range_select", [], {**RANGE, "target": "trn2"}, ["range_select@vector"], TILE),
    (CURRENT, "nisa.range_select", [TILE, PSUM], {**BETWEEN, "target": "trn2"}, ["range_select@vector"], None),
    (LEGACY, "nisa.select_reduce", [], CHOICE, ["select_reduce@vector"], None),
    (CURRENT, "nisa.select_reduce", [TILE, HALVES, TILE, COLUMN, COLUMN], {}, ["select_reduce@vector"], None),
    (LEGACY, "nisa.tensor_copy_predicated", [], {"src": TILE, "dst": TILE, "predicate": "bool[128,512]"}, ["tensor_copy_predicated@vector"], None),
    (CURRENT, "nisa.tensor_copy_predicated", [TILE, 1.0, WORDS], {}, ["tensor_copy_predicated@vector"], None),
    (LEGACY, "nisa.max8", [], {"src": TILE}, ["max8@vector"], EIGHT),
    (CURRENT, "nisa.max8", [EIGHT, "f32[128,4,8]"], {}, ["max8@vector"], None),
    (LEGACY, "nisa.nc_find_index8", [], {"data": TILE, "vals": EIGHT}, ["nc_find_index8@vector"], "u32[128,8]"),
    (LEGACY, "nisa.nc_find_index8", [], {"data": TILE, "vals": EIGHT, "dtype": U16}, ["nc_find_index8@vector"], "u16[128,8]"),
    (LEGACY, "nisa.nc_match_replace8", [], {"data": "f32[128,4,8]", "vals": EIGHT, "imm": 0.0, "dst_idx": "u32[128,8]"}, ["nc_match_replace8@vector"], "f32[128,4,8]"),
    (CURRENT, "nisa.nc_match_replace8", [TILE, TILE, EIGHT, 0.0], {}, ["nc_match_replace8@vector"], None),
    (CURRENT, "nisa.topk", ["bf16[32,8]", "u32[32,8]", "bf16[32,3]", 42], {}, ["topk@gpsimd"], None),
    (CURRENT, "nisa.nonzero_with_count", ["i32[128,9]", "f32[128,8]"], {"target": "trn2"}, ["nonzero_with_count@gpsimd"], None),
    (LEGACY, "nisa.sequence_bounds", [], {"segment_ids": "i32[1,32]"}, ["sequence_bounds@gpsimd"], "i32[1,2,32]"),
    (LEGACY, "nisa.local_gather", ["f32[32,512,4]", "u16[32,4]", 4, 64], {}, ["local_gather@gpsimd"], "f32[32,64,4]"),
    (CURRENT, "nisa.local_gather", ["bf16[32,64]", "bf16[32,512]", "u16[32,4]"], {}, ["local_gather@gpsimd"], None),
    (CURRENT, "nisa.nc_n_gather", ["f32[32,3,5]", "f32[32,512]", "u32[32,15]"], {}, ["nc_n_gather@gpsimd"], None),
    (LEGACY, "nisa.nc_stream_shuffle", [TILE, TILE, tuple(range(32))], {}, ["nc_stream_shuffle@vector"], None),
    (CURRENT, "nisa.nc_stream_shuffle", ["f32[32,8]+64", "f32[1,8]", (0,) * 32], {}, ["nc_stream_shuffle@vector"], None),
    (LEGACY, "nisa.tensor_copy_dynamic_src", [TILE], {}, ["tensor_copy@scalar"], TILE),
    (LEGACY, "nisa.tensor_copy_dynamic_dst", [], {"dst": TILE, "src": TILE}, ["tensor_copy@scalar"], None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "name", "args", "kwargs", "issued", "result"),
    CALLS,
    ids=[f"{i}-{c[1]}" for i, c in enumerate(CALLS)],
)
def test_call(dialect, name, args, kwargs, issued, result):
    found = call(dialect, name, *args, **kwargs)
    assert summary(found) == issued
    assert found.result == (None if result is None else t(result))
    assert codes(found) == []


# (code, dialect, call, broken arguments, sound arguments, keywords)
LIMITS: list[tuple[Any, ...]] = [
    ("R013", CURRENT, "nisa.iota", ["i32[8,32]", ((1, 2),) * 5], ["i32[8,16]", ((1, 2),) * 4], {}),
    ("R027", CURRENT, "nisa.iota", ["i32[8,32]", ((1, 31),)], ["i32[8,32]", ((1, 4), (1, 8))], {}),
    ("R034", CURRENT, "nisa.iota", ["i32[8,32]@psum", ((1, 32),)], ["i32[8,32]", ((1, 32),)], {}),
    ("R034", CURRENT, "nisa.affine_select", [TILE, ((1, 512),), 0, PSUM, 0.0], [TILE, ((1, 512),), 0, TILE, 0.0], {}),
    ("R101", CURRENT, "nisa.affine_select", [TILE, ((1, 512),), 0, TILE, 0.0, "add"], [TILE, ((1, 512),), 0, TILE, 0.0, "not_equal"], {}),
    ("R069", CURRENT, "nisa.range_select", [TILE, TILE, "less", "equal", COLUMN, COLUMN, "idle", None, "maximum", 0, 0.0], [TILE, TILE, "less", "equal", COLUMN, COLUMN, "idle", None, "maximum", 0, LOWEST], {"target": "trn2"}),
    ("R026", CURRENT, "nisa.range_select", [TILE, TILE, "less", "equal", COLUMN, COLUMN, "idle", None, "maximum", 2**24], [TILE, TILE, "less", "equal", COLUMN, COLUMN, "idle", None, "maximum", 2**24 - 512], {"target": "trn2"}),
    ("R101", CURRENT, "nisa.range_select", [TILE, TILE, "not_equal", "equal", COLUMN, COLUMN], [TILE, TILE, "less", "equal", COLUMN, COLUMN], {"target": "trn2"}),
    ("R101", CURRENT, "nisa.range_select", [TILE, TILE, "less", "less", COLUMN, COLUMN, "idle", None, "add"], [TILE, TILE, "less", "less", COLUMN, COLUMN, "idle", None, "maximum"], {"target": "trn2"}),
    ("R097", CURRENT, "nisa.range_select", [TILE, "i32[128,512]", "less", "equal", COLUMN, COLUMN], [TILE, "bf16[128,512]", "less", "equal", COLUMN, COLUMN], {"target": "trn2"}),
    ("R097", CURRENT, "nisa.range_select", [TILE, TILE, "less", "equal", "bf16[128,1]", COLUMN], [TILE, TILE, "less", "equal", COLUMN, COLUMN], {"target": "trn2"}),
    ("R094", CURRENT, "nisa.select_reduce", [TILE, "u8[128,512]@psum", PSUM, 0.0], [TILE, BYTES, PSUM, 0.0], {}),
    ("R097", CURRENT, "nisa.select_reduce", [TILE, WORDS, TILE, 0.0], [TILE, "i16[128,512]", TILE, 0.0], {}),
    ("R097", CURRENT, "nisa.select_reduce", [TILE, BYTES, "i32[128,512]", 0.0], [TILE, BYTES, "bf16[128,512]", 0.0], {}),
    ("R094", CURRENT, "nisa.tensor_copy_predicated", [TILE, PSUM, "u8[128,512]@psum"], [TILE, PSUM, BYTES], {}),
    ("R097", CURRENT, "nisa.tensor_copy_predicated", [TILE, "bf16[128,512]", BYTES], ["bf16[128,512]", "bf16[128,512]", BYTES], {}),
    ("R097", CURRENT, "nisa.tensor_copy_predicated", [TILE, TILE, TILE], [TILE, TILE, HALVES], {}),
    ("R026", CURRENT, "nisa.max8", [EIGHT, "f32[128,7]"], [EIGHT, "f32[128,8]"], {}),
    ("R026", CURRENT, "nisa.max8", [EIGHT, "bf16[128,16385]"], [EIGHT, "bf16[128,16384]"], {}),
    ("R027", CURRENT, "nisa.max8", ["f32[128,16]", TILE], [EIGHT, TILE], {}),
    ("R013", CURRENT, "nisa.max8", [EIGHT, "f32[128,2,2,2]"], [EIGHT, "f32[128,2,4]"], {}),
    ("R027", CURRENT, "nisa.nc_find_index8", ["u32[128,8]", TILE, COLUMN], ["u32[128,8]", TILE, EIGHT], {}),
    ("R097", CURRENT, "nisa.nc_find_index8", ["i32[128,8]", TILE, EIGHT], ["u16[128,8]", TILE, EIGHT], {}),
    ("R024", CURRENT, "nisa.nc_find_index8", ["u32[128,8]", TILE, "f32[64,8]"], ["u32[128,8]", TILE, EIGHT], {}),
    ("R097", CURRENT, "nisa.nc_match_replace8", [TILE, TILE, EIGHT, 0.0, EIGHT], [TILE, TILE, EIGHT, 0.0, "u32[128,8]"], {}),
    ("R026", CURRENT, "nisa.topk", ["bf16[32,8]", "u32[32,8]", "bf16[32,2]", 42], ["bf16[32,8]", "u32[32,8]", "bf16[32,3]", 42], {}),
    ("R026", CURRENT, "nisa.topk", ["bf16[24,8]", "u32[24,8]", "bf16[24,3]", 42], ["bf16[16,8]", "u32[16,8]", "bf16[16,3]", 42], {}),
    ("R097", CURRENT, "nisa.topk", ["bf16[16,8]", "u32[16,8]", "f32[16,3]", 42], ["bf16[16,8]", "u32[16,8]", "bf16[16,3]", 42], {}),
    ("R027", CURRENT, "nisa.nonzero_with_count", ["i32[16,8]", "f32[16,8]"], ["i32[16,9]", "f32[16,8]"], {"target": "trn2"}),
    ("R097", CURRENT, "nisa.nonzero_with_count", ["i32[16,9]", "bf16[16,8]"], ["i32[16,9]", "i32[16,8]"], {"target": "trn2"}),
    ("R026", CURRENT, "nisa.sequence_bounds", ["i32[2,2,8]", "i32[2,8]"], ["i32[1,2,8]", "i32[1,8]"], {}),
    ("R027", CURRENT, "nisa.sequence_bounds", ["i32[1,8]", "i32[1,8]"], ["i32[1,16]", "i32[1,8]"], {}),
    ("R026", CURRENT, "nisa.local_gather", ["f32[20,64]", "f32[20,8]", "u16[20,4]"], ["f32[16,64]", "f32[16,8]", "u16[16,4]"], {}),
    ("R026", CURRENT, "nisa.local_gather", ["f32[16,4112]", "f32[16,8]", "u16[16,257]"], ["f32[16,4096]", "f32[16,8]", "u16[16,256]"], {}),
    ("R026", CURRENT, "nisa.local_gather", ["f32[16,65]", "f32[16,8]", "u16[16,4]", 1, 65], ["f32[16,64]", "f32[16,8]", "u16[16,4]", 1, 64], {}),
    ("R101", CURRENT, "nisa.local_gather", ["f32[16,192]", "f32[16,8]", "u16[16,4]", 3], ["f32[16,128]", "f32[16,8]", "u16[16,4]", 2], {}),
    ("R097", CURRENT, "nisa.local_gather", ["f32[16,64]", "f32[16,8]", "u32[16,4]"], ["f32[16,64]", "f32[16,8]", "u16[16,4]"], {}),
    ("R097", CURRENT, "nisa.nc_n_gather", ["f32[8,4]", "bf16[8,16]", "u32[8,4]"], ["bf16[8,4]", "bf16[8,16]", "u32[8,4]"], {}),
    ("R097", CURRENT, "nisa.nc_n_gather", ["f32[8,4]", "f32[8,16]", "i32[8,4]"], ["f32[8,4]", "f32[8,16]", "u32[8,4]"], {}),
    ("R101", CURRENT, "nisa.nc_stream_shuffle", [TILE, TILE, (0,) * 31], [TILE, TILE, (0,) * 32], {}),
    ("R101", CURRENT, "nisa.nc_stream_shuffle", [TILE, TILE, (32,) * 32], [TILE, TILE, (255,) * 32], {}),
    ("R097", CURRENT, "nisa.nc_stream_shuffle", [TILE, "bf16[128,512]", (0,) * 32], [TILE, TILE, (0,) * 32], {}),
    ("R100", CURRENT, "nisa.nc_stream_shuffle", ["f32[64,8]", "f32[1,8]+32", (0,) * 32], ["f32[64,8]", "f32[1,8]+64", (0,) * 32], {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "dialect", "name", "broken", "sound", "kwargs"),
    LIMITS,
    ids=[f"{i}-{c[0]}-{c[2]}" for i, c in enumerate(LIMITS)],
)
def test_limit(code, dialect, name, broken, sound, kwargs):
    assert code in codes(call(dialect, name, *broken, **kwargs))
    assert codes(call(dialect, name, *sound, **kwargs)) == []


@pytest.mark.parametrize("name", ["nisa.range_select", "nisa.nonzero_with_count"])
def test_generations(name):
    dialect, args, kwargs = next((c[0], c[2], c[3]) for c in CALLS if c[1] == name)
    assert "R095" in codes(call(dialect, name, *args, **{**kwargs, "target": "trn1"}))


def attributes(found: Lowered) -> dict[str, Any]:
    return dict(found.issues[-1].attrs)


def test_index_expressions_become_patterns():
    """Both dialects describe the same values in the same way."""
    expression = Pattern((128, 4, 8), (2, -1, 16), 5)
    legacy = attributes(call(LEGACY, "nisa.iota", expression, F32))
    current = call(
        CURRENT,
        "nisa.iota",
        "f32[128,4,8]",
        ((-1, 4), (16, 8)),
        offset=5,
        channel_multiplier=2,
    )
    assert legacy == attributes(current)


def test_predicates_become_comparisons_with_zero():
    below = attributes(call(LEGACY, "nisa.affine_select", BELOW, TILE, 0.0))
    assert (below["cmp_op"], below["pattern"], below["channel_multiplier"]) == (
        "greater_equal",
        ((-1, 512),),
        1,
    )
    diagonal = attributes(call(LEGACY, "nisa.affine_select", DIAGONAL, TILE, 0.0))
    assert (diagonal["cmp_op"], diagonal["pattern"]) == ("equal", ((-1, 512),))
    rows = Condition((Pattern((128, 1), (1, 0), -3),))
    assert attributes(call(LEGACY, "nisa.affine_select", rows, TILE, 0.0))["pattern"] == ((0, 512),)


@pytest.mark.parametrize(
    ("dialect", "name", "args", "kwargs", "code"),
    [
        (LEGACY, "nisa.affine_select", [Condition((*BELOW.terms, ROWS)), TILE, 0.0], {}, "R057"),
        (LEGACY, "nisa.affine_select", [True, TILE, 0.0], {}, "R057"),
        (LEGACY, "nisa.affine_select", [Condition((COLUMNS,)), "f32[128,256]", 0.0], {}, "R027"),
        (LEGACY, "nisa.iota", [Pattern((512,), (1,), 0), I32], {}, "R001"),
        (LEGACY, "nisa.iota", [7, I32], {}, "R033"),
        (CURRENT, "nisa.iota", ["i32[8,8]", (1, 8)], {}, "R101"),
        (CURRENT, "nisa.tensor_copy_predicated", [TILE, None, BYTES], {}, "R101"),
        (CURRENT, "nisa.nc_match_replace8", [TILE, TILE, EIGHT, None], {}, "R101"),
        (CURRENT, "nisa.select_reduce", [TILE, BYTES, TILE, None], {}, "R101"),
        (CURRENT, "nisa.nc_stream_shuffle", [TILE, TILE, 0], {}, "R101"),
    ],
)  # fmt: skip
def test_calls_that_make_no_sense(dialect, name, args, kwargs, code):
    with pytest.raises(LoweringError) as error:
        call(dialect, name, *args, **kwargs)
    assert error.value.code == code


@pytest.mark.parametrize(
    ("name", "args", "keeps"),
    [
        ("nisa.tensor_copy_predicated", [TILE, TILE, BYTES], True),
        ("nisa.nc_stream_shuffle", [TILE, TILE, (255, *range(31))], True),
        ("nisa.nc_stream_shuffle", [TILE, TILE, tuple(range(32))], False),
        ("nisa.nonzero_with_count", ["i32[16,9]", "f32[16,8]"], True),
    ],
)
def test_what_is_left_as_it_is_counts_as_read(name, args, keeps):
    issue = call(CURRENT, name, *args, target="trn2").issues[0]
    assert ("dst" in issue.reads) == keeps
    assert "dst" in issue.writes


# (call, arguments, cycles of its engine)
CYCLES: list[tuple[Any, ...]] = [
    ("nisa.iota", ["i32[128,512]", ((1, 512),)], 150 + 512),
    ("nisa.affine_select", [TILE, ((1, 512),), 0, TILE, 0.0], 150 + 512),
    ("nisa.range_select", [TILE, TILE, "less", "less", COLUMN, COLUMN], 512),
    ("nisa.tensor_copy_predicated", [TILE, TILE, BYTES], 2 * 512),
    ("nisa.tensor_copy_predicated", [TILE, PSUM, BYTES], 512),
    ("nisa.max8", [EIGHT, TILE], 512),
    ("nisa.max8", [EIGHT, "f32[128,16]"], 64),
    ("nisa.nc_find_index8", ["u32[128,8]", TILE, EIGHT], 512),
    ("nisa.nc_match_replace8", [TILE, TILE, EIGHT, 0.0], 512),
    ("nisa.nc_stream_shuffle", [TILE, TILE, (0,) * 32], 512),
    ("nisa.topk", ["bf16[32,8]", "u32[32,8]", "bf16[32,3]", 42], 150 + 4 * 42 + 8),
    # 64 indices of 4 elements in float32: ((28 + 16) / 16) / min(1, 4) cycles for each element
    ("nisa.local_gather", ["f32[16,64,4]", "f32[16,512]", "u16[16,4]", 4], 150 + 256 / 2.75),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "args", "cycles"), CYCLES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CYCLES)]
)
def test_documented_costs(name, args, cycles):
    target = get_target("trn2")
    issue = call(CURRENT, name, *args, target="trn2").issues[0]
    cost = instruction_cost(issue.op, issue.engine, issue.work, target)
    assert cost is not None
    if issue.engine == "gpsimd":
        assert cost.busy_ns == pytest.approx(cycles / target["gpsimd_clock"])
        return
    inputs = issue.work.sbuf_inputs > 1 and not issue.work.psum_inputs
    overhead = target["vector_issue_ns"] + inputs * target["vector_two_input_ns"]
    assert cost.busy_ns == pytest.approx(cycles / target["vector_clock"] + overhead)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("nisa.nonzero_with_count", ["i32[16,9]", "f32[16,8]"]),
        ("nisa.sequence_bounds", ["i32[1,16]", "i32[1,8]"]),
        ("nisa.nc_n_gather", ["f32[8,4]", "f32[8,16]", "u32[8,4]"]),
    ],
)
def test_costs_that_no_source_gives(name, args):
    issue = call(CURRENT, name, *args, target="trn2").issues[0]
    assert instruction_cost(issue.op, issue.engine, issue.work, get_target("trn2")) is None
