# ruff: noqa: E501 - one row of a table stays on one line
"""From calls to instructions, in both dialects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.apis import APIS
from accelopt_lsp.nki.costs import instruction_cost
from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.lowering import RESULT, LoweringError, has_lowering, lower, retarget
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.targets import get_target
from tests.nki.calls import CURRENT, LEGACY, call, codes, summary, t
from tests.nki.language_calls import LANGUAGE

F32, BF16 = get_dtype("f32"), get_dtype("bf16")
TILE = "f32[128,512]"

# (dialect, call, arguments, keywords, issued instructions, result)
CALLS: list[tuple[Any, ...]] = [
    # nki.isa, one to one: legacy returns a tile, current writes dst and returns nothing
    (LEGACY, "nisa.nc_matmul", ["bf16[128,128]", "bf16[128,512]"], {}, ["nc_matmul@tensor"], "f32[128,512]@psum"),
    (CURRENT, "nisa.nc_matmul", ["f32[128,512]@psum", "bf16[128,128]", "bf16[128,512]"], {}, ["nc_matmul@tensor"], None),
    (LEGACY, "nisa.nc_transpose", ["bf16[128,64]"], {}, ["nc_transpose@tensor"], "f32[64,128]@psum"),
    (LEGACY, "nisa.nc_transpose", ["bf16[32,32]"], {"engine": "vector"}, ["nc_transpose@vector"], "bf16[32,32]"),
    (LEGACY, "nisa.activation", ["exp", "bf16[128,512]"], {}, ["activation@scalar"], "bf16[128,512]"),
    (LEGACY, "nisa.activation", ["exp", TILE], {"dtype": BF16}, ["activation@scalar"], "bf16[128,512]"),
    (CURRENT, "nisa.activation", [TILE, "exp", TILE], {"bias": "f32[128,1]"}, ["activation@scalar"], None),
    (LEGACY, "nisa.activation_reduce", ["exp", TILE], {"reduce_op": "add", "reduce_res": "f32[128,1]"}, ["activation@scalar"], TILE),
    (LEGACY, "nisa.tensor_tensor", ["bf16[128,512]", TILE, "add"], {}, ["tensor_tensor@vector"], TILE),
    (LEGACY, "nisa.tensor_tensor", [TILE, TILE, "add"], {"engine": "gpsimd"}, ["tensor_tensor@gpsimd"], TILE),
    (CURRENT, "nisa.tensor_tensor", [TILE, TILE, TILE, "power"], {}, ["tensor_tensor@gpsimd"], None),
    # multiply and add run on the Scalar Engine in the legacy dialect, unless tiny
    (LEGACY, "nisa.tensor_scalar", [TILE, "multiply", 2.0], {}, ["tensor_scalar@scalar"], TILE),
    (LEGACY, "nisa.tensor_scalar", [TILE, "multiply", 2.0], {"op1": "add", "operand1": 1.0}, ["tensor_scalar@scalar"], TILE),
    (LEGACY, "nisa.tensor_scalar", [TILE, "multiply", 2.0, True], {}, ["tensor_scalar@scalar"], TILE),
    (LEGACY, "nisa.tensor_scalar", [TILE, "maximum", 0.0], {}, ["tensor_scalar@vector"], TILE),
    (LEGACY, "nisa.tensor_scalar", ["f32[128,1]", "add", 1.0], {}, ["tensor_scalar@vector"], "f32[128,1]"),
    (CURRENT, "nisa.tensor_scalar", [TILE, TILE, "multiply", 2.0], {}, ["tensor_scalar@vector"], None),
    (CURRENT, "nisa.tensor_scalar", [TILE, TILE, "add", "f32[128,1]"], {"engine": "gpsimd"}, ["tensor_scalar@gpsimd"], None),
    (LEGACY, "nisa.scalar_tensor_tensor", [], {"data": TILE, "op0": "multiply", "operand0": 2.0, "op1": "add", "operand1": TILE}, ["scalar_tensor_tensor@vector"], TILE),
    (LEGACY, "nisa.tensor_scalar_reduce", [], {"data": TILE, "op0": "multiply", "operand0": 2.0, "reduce_op": "add", "reduce_res": "f32[128,1]"}, ["tensor_scalar_reduce@vector"], TILE),
    (LEGACY, "nisa.tensor_tensor_scan", [TILE, TILE, 0.0, "multiply", "add"], {}, ["tensor_tensor_scan@vector"], TILE),
    (LEGACY, "nisa.tensor_reduce", ["add", TILE, 1], {}, ["tensor_reduce@vector"], "f32[128,1]"),
    (LEGACY, "nisa.tensor_reduce", ["add", "f32[128,4,64]", (2,)], {}, ["tensor_reduce@vector"], "f32[128,4]"),
    (LEGACY, "nisa.tensor_reduce", ["add", "f32[128,4,64]", (1, 2)], {"keepdims": True}, ["tensor_reduce@vector"], "f32[128,1,1]"),
    (CURRENT, "nisa.tensor_reduce", ["f32[128,1]", "maximum", TILE, 1], {}, ["tensor_reduce@vector"], None),
    (LEGACY, "nisa.tensor_copy", [TILE], {"dtype": BF16}, ["tensor_copy@scalar"], "bf16[128,512]"),
    (LEGACY, "nisa.tensor_copy", ["f32[128,512]@psum"], {}, ["tensor_copy@scalar"], TILE),
    (LEGACY, "nisa.tensor_copy", ["f32[128,512]@psum"], {"engine": "vector"}, ["tensor_copy@vector"], TILE),
    (CURRENT, "nisa.tensor_copy", ["bf16[128,512]", "f32[128,512]@psum"], {}, ["tensor_copy@vector"], None),
    (LEGACY, "nisa.reciprocal", ["f32[128,1]"], {}, ["reciprocal@vector"], "f32[128,1]"),
    (LEGACY, "nisa.memset", [(128, 512), 0, F32], {}, ["memset@vector"], TILE),
    (CURRENT, "nisa.memset", [TILE, 0], {"engine": "gpsimd"}, ["memset@gpsimd"], None),
    (LEGACY, "nisa.dma_copy", [], {"dst": TILE, "src": "f32[128,512]@hbm"}, ["dma_copy@dma"], None),
    (CURRENT, "nisa.dma_copy", [TILE, "f32[128,512]@hbm"], {}, ["dma_copy@dma"], None),
    (CURRENT, "nisa.dma_transpose", ["bf16[64,128]", "bf16[128,64]@hbm"], {}, ["dma_transpose@dma"], None),
    (CURRENT, "nisa.nc_matmul", ["f32[128,512]@psum", "f8e4m3[128,2,128]", "f8e5m2[128,2,512]"], {"perf_mode": "double_row", "target": "trn2"}, ["nc_matmul@tensor"], None),
    (LEGACY, "nisa.nc_matmul", ["f8e5m2[128,2,16]", "f8e5m2[128,2,512]"], {"perf_mode": "double_row_gen3", "target": "trn2"}, ["nc_matmul@tensor"], "f32[16,512]@psum"),
    (LEGACY, "nisa.nc_matmul", ["f32[64,64]", "f32[64,512]"], {"tile_position": (64, 0), "tile_size": (64, 64)}, ["nc_matmul@tensor"], "f32[64,512]@psum"),
    (CURRENT, "nisa.nc_matmul", ["bf16[128,128]@psum", "bf16[128,128]", "bf16[128,128]"], {"is_transpose": True, "target": "trn2"}, ["nc_matmul@tensor"], None),
    (CURRENT, "nisa.nc_matmul", ["bf16[128,512]@psum", "bf16[128,128]", "bf16[128,512]"], {"target": "trn3"}, ["nc_matmul@tensor"], None),
    (CURRENT, "nisa.nc_matmul", ["f32[128,2048]@psum", "bf16[128,128]", "bf16[128,2048]"], {"target": "trn3"}, ["nc_matmul@tensor"], None),
    # a legacy transpose that casts is a transpose and a copy
    (LEGACY, "nisa.nc_transpose", ["bf16[128,64]"], {"dtype": BF16}, ["nc_transpose@tensor", "tensor_copy@scalar"], "bf16[64,128]"),
    (LEGACY, "nisa.nc_transpose", ["bf16[128,64]"], {"dtype": BF16, "target": "trn2"}, ["nc_transpose@tensor"], "bf16[64,128]@psum"),
    (LEGACY, "nisa.nc_transpose", ["bf16[128,4,16]"], {}, ["nc_transpose@tensor"], "f32[64,128]@psum"),
    (CURRENT, "nisa.activation", [TILE, "exp", TILE], {"bias": 1.0, "target": "trn2"}, ["activation@scalar"], None),
    (CURRENT, "nisa.activate2", [TILE, "prelu", TILE, 2.0, "f32[128,1]", "multiply", "add"], {"relu_param": 0.1, "reduce_op": "maximum", "reduce_res": "f32[128,1]", "reduce_cmd": "reset_reduce", "target": "trn3"}, ["activate2@scalar"], None),
    (CURRENT, "nisa.exponential", [TILE, TILE], {"max_value": "f32[128,1]", "target": "trn3"}, ["exponential@vector"], None),
    (CURRENT, "nisa.tensor_tensor", ["i32[128,512]", "i32[128,512]", "i32[128,512]", "add"], {}, ["tensor_tensor@gpsimd"], None),
    (CURRENT, "nisa.tensor_tensor", ["i32[128,512]", "i32[128,512]", "i32[128,512]@psum", "add"], {}, ["tensor_tensor@vector"], None),
    (CURRENT, "nisa.tensor_tensor", ["i32[128,512]", "i32[128,512]", "i32[128,512]", "bitwise_or"], {}, ["tensor_tensor@vector"], None),
    (LEGACY, "nisa.tensor_tensor", ["i32[128,512]", "i32[128,512]", "multiply"], {}, ["tensor_tensor@gpsimd"], "i32[128,512]"),
    (CURRENT, "nisa.tensor_scalar", [TILE, TILE, "rsqrt", 0.0], {}, ["tensor_scalar@gpsimd"], None),
    (CURRENT, "nisa.tensor_scalar", [TILE, TILE, "abs", None], {"op1": "add", "operand1": 1.0}, ["tensor_scalar@vector"], None),
    (CURRENT, "nisa.tensor_scalar", ["u8[128,512]", "u8[128,512]", "bitwise_and", 15], {"op1": "left_shift", "operand1": 4}, ["tensor_scalar@vector"], None),
    (CURRENT, "nisa.tensor_scalar_reduce", [TILE, TILE, "abs", None, "maximum"], {}, ["tensor_scalar_reduce@vector"], None),
    (CURRENT, "nisa.tensor_scalar_reduce", [TILE, TILE, "multiply", 2.0, "add", "f32[128,1]"], {"reduce_cmd": "load_reduce", "reduce_init": "f32[128,1]"}, ["tensor_scalar_reduce@vector"], None),
    (CURRENT, "nisa.tensor_scalar_cumulative", [TILE, TILE, "add", "multiply", 1.0], {}, ["tensor_scalar_cumulative@vector"], None),
    (LEGACY, "nisa.tensor_scalar_cumulative", [], {"src": TILE, "dst": TILE, "op0": "add", "op1": "add", "imm0": "f32[128,1]"}, ["tensor_scalar_cumulative@vector"], None),
    (LEGACY, "nisa.tensor_partition_reduce", ["add", "f32[128,32,4]"], {}, ["tensor_partition_reduce@gpsimd"], "f32[1,32,4]"),
    (CURRENT, "nisa.tensor_partition_reduce", ["f32[1,512]", "average", TILE], {}, ["tensor_partition_reduce@gpsimd"], None),
    (LEGACY, "nisa.bn_stats", ["bf16[128,512]"], {"dtype": F32}, ["bn_stats@vector"], "f32[128,6]"),
    (LEGACY, "nisa.bn_aggr", ["f32[128,12]"], {}, ["bn_aggr@vector"], "f32[128,2]"),
    (LEGACY, "nisa.tensor_copy", ["i32[128,512]"], {}, ["tensor_copy@vector"], "i32[128,512]"),
    (LEGACY, "nisa.tensor_reduce", ["bitwise_or", "u8[128,4,64]", (1, 2)], {}, ["tensor_reduce@vector"], "u8[128,1]"),
    # nki.language
    (LEGACY, "nl.load", ["bf16[128,512]@hbm"], {}, ["dma_copy@dma"], "bf16[128,512]"),
    (LEGACY, "nl.load", ["bf16[128]@hbm"], {}, ["dma_copy@dma"], "bf16[128,1]"),
    (CURRENT, "nl.load", ["bf16[128,512]@hbm"], {"dtype": F32}, ["dma_copy@dma"], TILE),
    (LEGACY, "nl.load_transpose2d", ["bf16[128,64]@hbm"], {}, ["dma_transpose@dma"], "bf16[64,128]"),
    (LEGACY, "nl.store", ["f32[128,512]@hbm", TILE], {}, ["dma_copy@dma"], None),
    (LEGACY, "nl.store", ["f32[128,512]@hbm", "f32[128,512]@psum"], {}, ["tensor_copy@scalar", "dma_copy@dma"], None),
    (LEGACY, "nl.copy", ["f32[128,512]@psum"], {"dtype": BF16}, ["tensor_copy@scalar"], "bf16[128,512]"),
    (CURRENT, "nl.copy", ["f32[128,512]@psum"], {}, ["tensor_copy@vector"], TILE),
    (LEGACY, "nl.exp", [TILE], {}, ["activation@scalar"], TILE),
    (CURRENT, "nl.silu", ["bf16[128,512]"], {}, ["activation@scalar"], "bf16[128,512]"),
    (LEGACY, "nl.rsqrt", ["f32[128,1]"], {}, ["activation@scalar"], "f32[128,1]"),
    (CURRENT, "nl.rsqrt", ["f32[128,1]"], {}, ["tensor_scalar@gpsimd"], "f32[128,1]"),
    (LEGACY, "nl.reciprocal", ["f32[128,1]"], {}, ["reciprocal@vector"], "f32[128,1]"),
    (LEGACY, "nl.negative", [TILE], {}, ["tensor_scalar@scalar"], TILE),
    (LEGACY, "nl.add", [TILE, TILE], {}, ["tensor_tensor@vector"], TILE),
    (LEGACY, "nl.add", ["bf16[128,512]", TILE], {}, ["tensor_tensor@vector"], TILE),
    (LEGACY, "nl.add", [TILE, 1.0], {}, ["tensor_scalar@scalar"], TILE),
    (LEGACY, "nl.subtract", [1.0, TILE], {}, ["tensor_scalar@vector"], TILE),
    (LEGACY, "nl.multiply", [TILE, "f32[128,1]"], {}, ["tensor_scalar@scalar"], TILE),
    (LEGACY, "nl.subtract", ["f32[128,1]", TILE], {}, ["tensor_scalar@vector"], TILE),
    (LEGACY, "nl.less", [TILE, TILE], {"dtype": F32}, ["tensor_tensor@vector"], TILE),
    # a partition broadcast is a product with ones and a copy, 512 columns at a time
    (LEGACY, "nl.multiply", [TILE, "f32[1,512]"], {}, ["nc_matmul@tensor", "tensor_copy@scalar", "tensor_tensor@vector"], TILE),
    (LEGACY, "nl.multiply", ["f32[128,1024]", "f32[1,1024]"], {}, ["nc_matmul@tensor", "tensor_copy@scalar"] * 2 + ["tensor_tensor@vector"], "f32[128,1024]"),
    (LEGACY, "nl.broadcast_to", ["f32[1,1024]"], {"shape": (128, 1024)}, ["nc_matmul@tensor", "tensor_copy@scalar"] * 2, "f32[128,1024]"),
    (CURRENT, "nl.broadcast_to", ["f32[1,600]", (128, 600)], {}, ["nc_matmul@tensor", "tensor_copy@vector"] * 2, "f32[128,600]"),
    # no instruction divides
    (LEGACY, "nl.divide", [TILE, 4.0], {}, ["tensor_scalar@scalar"], TILE),
    (LEGACY, "nl.divide", [TILE, "f32[128,1]"], {}, ["reciprocal@vector", "tensor_scalar@scalar"], TILE),
    (LEGACY, "nl.divide", [TILE, TILE], {}, ["reciprocal@vector", "tensor_tensor@vector"], TILE),
    (LEGACY, "nl.divide", [1.0, TILE], {}, ["reciprocal@vector", "tensor_scalar@scalar"], TILE),
    (LEGACY, "nl.sum", [TILE, 1], {}, ["tensor_reduce@vector"], "f32[128,1]"),
    (LEGACY, "nl.sum", ["bf16[128,512]", (1,)], {"dtype": F32, "keepdims": True}, ["tensor_reduce@vector"], "f32[128,1]"),
    (LEGACY, "nl.max", [TILE, -1], {}, ["tensor_reduce@vector"], "f32[128,1]"),
    (LEGACY, "nl.mean", [TILE, 1], {}, ["tensor_reduce@vector", "tensor_scalar@vector"], "f32[128,1]"),
    # only a product with transpose_x has its contraction on partitions already
    (LEGACY, "nl.matmul", ["bf16[128,128]", "bf16[128,512]"], {"transpose_x": True}, ["nc_matmul@tensor"], "f32[128,512]@psum"),
    (LEGACY, "nl.matmul", ["bf16[64,128]", "bf16[128,512]"], {}, ["nc_transpose@tensor", "tensor_copy@scalar", "nc_matmul@tensor"], "f32[64,512]@psum"),
    # the Tensor Engine reads SBUF only: legacy copies a PSUM operand over
    (LEGACY, "nl.matmul", ["f32[128,128]", "f32[128,512]@psum"], {"transpose_x": True}, ["tensor_copy@scalar", "nc_matmul@tensor"], "f32[128,512]@psum"),
    (LEGACY, "nl.matmul", ["f32[64,128]@psum", "f32[128,512]"], {}, ["tensor_copy@scalar", "nc_transpose@tensor", "tensor_copy@scalar", "nc_matmul@tensor"], "f32[64,512]@psum"),
    (LEGACY, "nl.transpose", ["f32[128,64]@psum"], {}, ["tensor_copy@scalar", "nc_transpose@tensor"], "f32[64,128]@psum"),
    (LEGACY, "nl.transpose", ["f32[32,16]"], {}, ["nc_transpose@vector"], "f32[16,32]"),
    (LEGACY, "nl.transpose", ["f32[128,64]"], {}, ["nc_transpose@tensor"], "f32[64,128]@psum"),
    (LEGACY, "nl.softmax", [TILE, 1], {}, ["tensor_reduce@vector", "activation@scalar", "reciprocal@vector", "tensor_scalar@scalar"], TILE),
    (LEGACY, "nl.rms_norm", [TILE, "f32[128,512]", 1, 512], {}, ["activation@scalar", "tensor_scalar@vector", "activation@scalar", "tensor_scalar@scalar", "tensor_tensor@vector"], TILE),
    # microscaling formats
    (CURRENT, "nisa.nc_matmul_mx", ["f32[128,512]@psum", "f8e4m3fnx4[128,128]", "f4e2m1fnx4[128,512]", "f8e8m0[128,128]", "u8[128,512]"], {"target": "trn3"}, ["nc_matmul_mx@tensor"], None),
    (CURRENT, "nisa.nc_matmul_mx", ["bf16[64,8192]@psum", "f8e5m2x4[32,64]", "f8e5m2x4[32,8192]", "u8[4,64]", "u8[4,8192]"], {"tile_position": (96, 0), "tile_size": (32, 128), "target": "trn3"}, ["nc_matmul_mx@tensor"], None),
    (CURRENT, "nisa.quantize_mx", ["f8e5m2x4[64,128]", "bf16[64,512]", "u8[64,128]"], {"target": "trn3"}, ["quantize_mx@vector"], None),
    # random numbers
    (CURRENT, "nisa.rng", ["u32[128,64]@psum"], {}, ["rng@vector"], None),
    (CURRENT, "nisa.rng", ["u8[128,64]", "gpsimd"], {"target": "trn2"}, ["rng@gpsimd"], None),
    (CURRENT, "nisa.rand2", ["bf16[128,64]", 0.0, "f32[128,1]"], {"target": "trn3"}, ["rand2@vector"], None),
    (CURRENT, "nisa.set_rng_seed", ["i32[1,1]@psum"], {}, ["set_rng_seed@vector"], None),
    (CURRENT, "nisa.rand_set_state", ["u32[128,6]"], {"target": "trn2"}, ["rand_set_state@gpsimd"], None),
    (CURRENT, "nisa.rand_get_state", ["u32[128,24]@psum", "vector"], {"target": "trn3"}, ["rand_get_state@vector"], None),
    (CURRENT, "nisa.dropout", [TILE, TILE, 0.5], {}, ["dropout@vector"], None),
    (LEGACY, "nisa.dropout", ["i32[128,64]", "f32[128,1]"], {}, ["dropout@vector"], "i32[128,64]"),
]  # fmt: skip
CALLS += LANGUAGE


@pytest.mark.parametrize(
    ("dialect", "name", "args", "kwargs", "issued", "result"),
    CALLS,
    ids=[f"{i}-{c[1]}-{c[0]}" for i, c in enumerate(CALLS)],
)
def test_call(dialect, name, args, kwargs, issued, result):
    lowered = call(dialect, name, *args, **kwargs)
    assert summary(lowered) == issued
    assert lowered.result == (None if result is None else t(result))
    assert codes(lowered) == []


@pytest.mark.parametrize(
    ("dialect", "name", "args", "kwargs"),
    [c[:4] for c in CALLS],
    ids=[f"{i}-{c[1]}-{c[0]}" for i, c in enumerate(CALLS)],
)
def test_operands_have_types_and_roles(dialect, name, args, kwargs):
    lowered = call(dialect, name, *args, **kwargs)
    for issue in lowered.issues:
        roles = [role for role, _ in issue.operands]
        assert len(roles) == len(set(roles))
        for role, slot in issue.operands:
            assert INSTRUCTIONS[issue.op].operand(role) is not None
            assert slot in lowered.types
        written = {slot for role, slot in issue.operands if slot in issue.writes}
        # A seed goes into the engine.
        assert written or issue.op in ("set_rng_seed", "rand_set_state")
    if lowered.result is not None:
        assert lowered.types[RESULT] == lowered.result
        last_written = {s.partition("@")[0] for s in lowered.issues[-1].writes}
        assert RESULT in last_written


def test_a_value_is_written_before_it_is_read():
    """Temporaries come from an earlier instruction or hold a constant."""
    for dialect, name, args, kwargs, *_ in CALLS:
        lowered = call(dialect, name, *args, **kwargs)
        known = set(lowered.constants)
        for issue in lowered.issues:
            for slot in issue.reads:
                base = slot.partition("@")[0]
                assert not base.startswith("%") or base in known, (name, slot)
            known |= {s.partition("@")[0] for s in issue.writes}


def test_broadcast_along_the_free_axis_is_a_view():
    lowered = call(LEGACY, "nl.broadcast_to", "f32[128,1]", shape=(128, 512))
    assert summary(lowered) == []
    assert lowered.view_of == "src@broadcast"
    assert lowered.result is not None
    assert lowered.result.layout == (0, 0) or lowered.result.layout[1] == 0


def test_partition_broadcast_reads_ones_and_names_its_columns():
    lowered = call(LEGACY, "nl.broadcast_to", "f32[1,1024]", shape=(128, 1024))
    products = [i for i in lowered.issues if i.op == "nc_matmul"]
    ones = {dict(i.operands)["stationary"] for i in products}
    assert len(ones) == 1
    assert lowered.constants == {next(iter(ones)): 1.0}
    assert [dict(i.operands)["moving"] for i in products] == [
        "src@columns:0:512",
        "src@columns:512:1024",
    ]


@given(st.integers(1, 5000))
def test_partition_broadcast_takes_a_product_per_512_columns(columns):
    lowered = call(LEGACY, "nl.broadcast_to", t(f"f32[1,{columns}]"), shape=(128, columns))
    products = [i for i in lowered.issues if i.op == "nc_matmul"]
    assert len(products) == -(-columns // 512)
    assert sum(i.work.columns for i in products) >= columns
    assert codes(lowered) == []


def test_engines_run_in_place_where_a_tile_is_assigned():
    """``tile[...] = op(...)`` casts on the way and issues no copy."""
    lowered = call(LEGACY, "nl.exp", TILE)
    moved = retarget(lowered, t("bf16[128,512]"))
    assert summary(moved) == summary(lowered)
    assert moved.result == t("bf16[128,512]")
    assert moved.types[RESULT] == t("bf16[128,512]")
    assert retarget(lowered, t(TILE)) is lowered


def test_retarget_to_psum_changes_the_work():
    moved = retarget(call(LEGACY, "nl.exp", TILE), t("f32[128,512]@psum"))
    assert moved.issues[0].work.dst.value == "psum"


def test_lowering_is_memoised():
    assert call(LEGACY, "nl.exp", TILE) is call(LEGACY, "nl.exp", TILE)


def test_transposes_keep_their_type_from_the_third_generation_on():
    first = call(LEGACY, "nl.transpose", "bf16[128,64]", target="trn1")
    later = call(LEGACY, "nl.transpose", "bf16[128,64]", target="trn2")
    assert (first.result, later.result) == (t("f32[64,128]@psum"), t("bf16[64,128]@psum"))


def test_ignored_keywords_are_reported():
    lowered = call(CURRENT, "nisa.tensor_copy", TILE, "f32[128,512]@psum", dtype=BF16)
    assert lowered.notes == ("nisa.tensor_copy has no parameter 'dtype'; it is ignored",)


IMPOSSIBLE = [
    ("nl.exp", [1.0], {}, "R101", "x must be a tensor"),
    ("nl.add", [1.0, 2.0], {}, "R101", "at least one tile"),
    ("nl.add", [TILE, "f32[128,100]"], {}, "R027", "do not broadcast"),
    ("nl.divide", [TILE, 0.0], {}, "R101", "constant 0"),
    ("nl.sum", [TILE, 2], {}, "R101", "not an axis"),
    ("nl.exp", [TILE], {"dtype": "f33"}, "R101", "unknown data type"),
    ("nl.load_transpose2d", ["f32[4,4,4]@hbm"], {}, "R101", "2-D"),
    ("nl.broadcast_to", ["f32[2,4]"], {"shape": (128, 4)}, "R027", "broadcast"),
    ("nl.loop_reduce", [TILE, "add", ()], {}, "R103", "not supported"),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "code", "text"), IMPOSSIBLE)
def test_calls_that_make_no_sense(name, args, kwargs, code, text):
    with pytest.raises(LoweringError) as raised:
        call(LEGACY, name, *args, **kwargs)
    assert raised.value.code == code
    assert text in str(raised.value)


def test_unknown_engine_is_an_error_for_people():
    with pytest.raises(LoweringError, match="engine"):
        call(LEGACY, "nisa.tensor_copy", TILE, engine="warp")


def test_attributes_of_an_issue():
    issue = call(LEGACY, "nisa.tensor_scalar", TILE, "multiply", 2.0).issues[0]
    assert issue.engine is Engine.SCALAR
    assert issue.attr("op0") == "multiply"
    assert issue.attr("operand0") == 2.0
    assert issue.attr("op1", "none") == "none"


JUNK = st.none() | st.booleans() | st.integers(-3, 600) | st.floats() | st.text(max_size=5)
TILES = st.sampled_from(["f32[128,512]", "bf16[1,512]", "f32[200,3]", "i8[4]", "f32[4,4]@hbm"])
COMPUTING = [a for a in APIS.values() if has_lowering(a.name)]


@given(st.data())
def test_any_arguments_give_instructions_or_an_error_for_people(data):
    api = data.draw(st.sampled_from(COMPUTING))
    dialect = data.draw(st.sampled_from(list(api.signatures)))
    values = {
        name: data.draw(JUNK | TILES.map(t) | st.tuples(JUNK))
        for name in api.signatures[dialect].parameters
    }
    target = get_target(data.draw(st.sampled_from(["trn1", "trn2", "trn3"])))
    try:
        lowered = lower(dialect, api.name, values, target)
    except LoweringError:
        return
    for issue in lowered.issues:
        instruction_cost(issue.op, issue.engine, issue.work, target)
