# ruff: noqa: E501 - one row of a table stays on one line
"""What functions of ``nki.language`` issue: a table for test_lowering."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.nki.operands import Number
from tests.nki.calls import CURRENT, LEGACY

TILE, CUBE = "f32[128,512]", "f32[128,4,64]"
COLUMN, ROW, INTEGERS = "f32[128,1]", "f32[1,512]", "i32[128,512]"
BF16, F16, F32 = get_dtype("bf16"), get_dtype("f16"), get_dtype("f32")
SINE = [
    "tensor_scalar@vector",
    "scalar_tensor_tensor@vector",
    "scalar_tensor_tensor@vector",
    "activation@scalar",
]
SPREAD = ["nc_matmul@tensor", "tensor_copy@scalar"]
STATS = ["bn_stats@vector", "bn_aggr@vector"]
SELECT = ["tensor_copy@vector", "tensor_copy_predicated@vector"]
ROUND, REMAINDER = ["round_to_integer@vector"], ["remainder@vector"]

# (dialect, call, arguments, keywords, issued instructions, result)
LANGUAGE: list[tuple[Any, ...]] = [
    # one activation each
    *((d, f"nl.{n}", [TILE], {}, ["activation@scalar"], TILE) for n in "log sqrt tanh sigmoid relu gelu gelu_dx gelu_apprx_tanh gelu_apprx_sigmoid silu_dx softplus mish erf erf_dx arctan sign square abs".split() for d in (LEGACY, CURRENT)),
    (CURRENT, "nl.gelu_apprx_sigmoid_dx", [TILE], {}, ["activation@scalar"], TILE),
    # the sine's range is reduced first
    (LEGACY, "nl.sin", [TILE], {}, SINE, TILE),
    (CURRENT, "nl.cos", ["bf16[128,512]"], {}, SINE, "bf16[128,512]"),
    (LEGACY, "nl.tan", [TILE], {}, [*SINE, *SINE, "reciprocal@vector", "tensor_tensor@vector"], TILE),
    (LEGACY, "nl.ceil", [TILE], {}, ROUND, TILE),
    (CURRENT, "nl.floor", [TILE], {}, ROUND, TILE),
    (CURRENT, "nl.trunc", [TILE], {"dtype": get_dtype("i32")}, ROUND, INTEGERS),
    (LEGACY, "nl.mod", [TILE, TILE], {}, REMAINDER, TILE),
    (LEGACY, "nl.mod", [TILE, ROW], {}, [*SPREAD, *REMAINDER], TILE),
    (CURRENT, "nl.fmod", [TILE, 2.0], {}, REMAINDER, TILE),
    (LEGACY, "nl.fmod", [2.0, TILE], {}, REMAINDER, TILE),
    # powers are raised on GpSimd, which reaches no PSUM
    (LEGACY, "nl.power", [TILE, 2.0], {}, ["tensor_scalar@gpsimd"], TILE),
    (CURRENT, "nl.power", [TILE, TILE], {}, ["tensor_tensor@gpsimd"], TILE),
    (LEGACY, "nl.power", ["f32[128,512]@psum", TILE], {}, ["tensor_copy@scalar", "tensor_tensor@gpsimd"], TILE),
    # an engine reads one tile out of PSUM
    (LEGACY, "nl.add", ["f32[128,512]@psum", "f32[128,512]@psum"], {}, ["tensor_copy@scalar", "tensor_tensor@vector"], TILE),
    # types: tiles and plain numbers are promoted in the legacy dialect
    (LEGACY, "nl.add", ["f16[128,512]", "bf16[128,512]"], {}, ["tensor_tensor@vector"], TILE),
    (LEGACY, "nl.multiply", ["bf16[128,512]", 2.0], {}, ["tensor_scalar@scalar"], TILE),
    (LEGACY, "nl.multiply", ["bf16[128,512]", 2], {}, ["tensor_scalar@scalar"], "bf16[128,512]"),
    (LEGACY, "nl.multiply", ["f16[128,512]", Number(2.0, F16)], {}, ["tensor_scalar@scalar"], "f16[128,512]"),
    (LEGACY, "nl.add", ["i8[128,512]", 2], {}, ["tensor_scalar@scalar"], INTEGERS),
    (LEGACY, "nl.add", [INTEGERS, 0.5], {}, ["tensor_scalar@scalar"], TILE),
    (LEGACY, "nl.add", ["u8[128,512]", True], {}, ["tensor_scalar@scalar"], "u8[128,512]"),
    (CURRENT, "nl.multiply", ["bf16[128,512]", 2.0], {}, ["tensor_scalar@vector"], "bf16[128,512]"),
    (LEGACY, "nl.divide", [INTEGERS, INTEGERS], {}, ["reciprocal@vector", "tensor_tensor@vector"], INTEGERS),
    # comparisons and logic
    (LEGACY, "nl.less", [TILE, TILE], {}, ["tensor_tensor@vector"], "bool[128,512]"),
    (CURRENT, "nl.less", [TILE, COLUMN], {}, ["tensor_scalar@vector"], TILE),
    *((LEGACY, f"nl.{n}", [TILE, TILE], {}, ["tensor_tensor@vector"], "bool[128,512]") for n in ("logical_and", "logical_or", "logical_xor")),
    *((CURRENT, f"nl.{n}", [TILE, 1.0], {}, ["tensor_scalar@vector"], TILE) for n in ("logical_and", "logical_or", "logical_xor")),
    (LEGACY, "nl.logical_not", [TILE], {}, ["tensor_scalar@vector"], "bool[128,512]"),
    (CURRENT, "nl.logical_not", [TILE], {}, ["tensor_scalar@vector"], TILE),
    *((d, f"nl.{n}", [INTEGERS, INTEGERS], {}, ["tensor_tensor@vector"], INTEGERS) for n in ("bitwise_and", "bitwise_or", "bitwise_xor") for d in (LEGACY, CURRENT)),
    *((d, f"nl.{n}", [INTEGERS, 3], {}, ["tensor_scalar@vector"], INTEGERS) for n in ("left_shift", "right_shift") for d in (LEGACY, CURRENT)),
    (LEGACY, "nl.invert", [INTEGERS], {}, ["tensor_scalar@vector"], INTEGERS),
    (CURRENT, "nl.invert", ["u8[128,512]"], {}, ["tensor_scalar@vector"], "u8[128,512]"),
    # reductions
    (LEGACY, "nl.min", [CUBE, (1, 2)], {}, ["tensor_reduce@vector"], COLUMN),
    (CURRENT, "nl.prod", [CUBE, 2], {"keepdims": True}, ["tensor_reduce@vector"], "f32[128,4,1]"),
    (LEGACY, "nl.all", [TILE, 1], {}, ["tensor_reduce@vector"], "bool[128,1]"),
    (CURRENT, "nl.all", [TILE, 1], {}, ["tensor_reduce@vector"], COLUMN),
    (LEGACY, "nl.var", [TILE, 1], {}, [*STATS, "tensor_copy@vector"], COLUMN),
    (LEGACY, "nl.var", ["f32[128,1024]", 1], {}, ["bn_stats@vector", *STATS, "tensor_copy@vector"], COLUMN),
    (LEGACY, "nl.var", ["f32[128,2,64]", 2], {}, [*STATS, "tensor_copy@vector"] * 2, "f32[128,2]"),
    (CURRENT, "nl.var", ["f32[128,2,64]", 2], {}, [*STATS, "tensor_copy@vector"] * 2, "f32[128,2,1]"),
    (CURRENT, "nl.softmax", [TILE], {}, ["tensor_reduce@vector", "activation@scalar", "reciprocal@vector", "tensor_scalar@vector"], TILE),
    (LEGACY, "nl.softmax", [TILE, 1], {"compute_dtype": BF16}, ["tensor_reduce@vector", "activation@scalar", "reciprocal@vector", "tensor_scalar@scalar"], "bf16[128,512]"),
    (LEGACY, "nl.softmax", [CUBE, 2], {}, ["tensor_reduce@vector", "tensor_tensor@vector", "activation@scalar", "tensor_reduce@vector", "reciprocal@vector", "tensor_tensor@vector"], CUBE),
    (CURRENT, "nl.rms_norm", [CUBE, CUBE, 2, 64], {}, ["activation@scalar", "tensor_reduce@vector", "tensor_scalar@vector", "activation@scalar", "tensor_tensor@vector", "tensor_tensor@vector"], CUBE),
    (LEGACY, "nl.all_reduce", [TILE, "add", 0], {}, ["tensor_copy@scalar"], TILE),
    (CURRENT, "nl.matmul", ["bf16[64,128]", "bf16[128,512]"], {"target": "trn2"}, ["nc_transpose@tensor", "tensor_copy@vector", "nc_matmul@tensor"], "f32[64,512]@psum"),
    # movement
    (LEGACY, "nl.store", ["f32[128,512]@hbm", 1.0], {}, ["memset@vector", "dma_copy@dma"], None),
    (CURRENT, "nl.store", ["f32[128,512]@hbm", TILE], {}, ["dma_copy@dma"], None),
    (CURRENT, "nl.load_transpose2d", ["bf16[128,64]@hbm"], {}, ["dma_transpose@dma"], "bf16[64,128]"),
    (CURRENT, "nl.broadcast_to", [COLUMN, (128, 512)], {"dtype": BF16}, ["tensor_copy@vector"], "bf16[128,512]"),
    (LEGACY, "nl.broadcast_to", ["f32[1,1]"], {"shape": (128, 512)}, [*SPREAD, "tensor_copy@scalar"], TILE),
    (LEGACY, "nl.broadcast_to", ["i32[1,512]"], {"shape": (128, 512)}, ["tensor_copy@vector", *SPREAD, "tensor_copy@vector"], INTEGERS),
    # a condition in floats is compared first
    (LEGACY, "nl.where", ["bool[128,512]", TILE, TILE], {}, SELECT, TILE),
    (LEGACY, "nl.where", ["bool[128,512]", TILE, 0.0], {}, ["memset@vector", "tensor_copy_predicated@vector"], TILE),
    (CURRENT, "nl.where", [TILE, TILE, TILE], {}, ["tensor_scalar@vector", *SELECT], TILE),
    (LEGACY, "nl.where", ["bool[128,512]", "bf16[128,512]", TILE], {}, ["tensor_copy@vector", *SELECT], TILE),
    (LEGACY, "nl.gather_flattened", [TILE, "u32[128,10]"], {}, ["nc_n_gather@gpsimd"], "f32[128,10]"),
    (CURRENT, "nl.gather_flattened", [TILE, "u32[128,10]"], {}, ["nc_n_gather@gpsimd"], "f32[128,10]"),
    # random values: rand2 only exists from the fourth generation on
    (CURRENT, "nl.rand", [(128, 512)], {"dtype": F32, "target": "trn3"}, ["rand2@vector"], TILE),
    (LEGACY, "nl.rand", [(128, 512)], {}, ["rng@vector", "tensor_scalar@vector", "tensor_scalar@vector"], TILE),
    (LEGACY, "nl.random_seed", [5], {}, ["memset@vector", "set_rng_seed@vector"], None),
    (CURRENT, "nl.random_seed", ["i32[1,1]"], {}, ["set_rng_seed@vector"], None),
    (LEGACY, "nl.dropout", [TILE, 0.5], {}, ["dropout@vector"], TILE),
    (CURRENT, "nl.dropout", [TILE, COLUMN], {}, ["dropout@vector"], TILE),
]  # fmt: skip
