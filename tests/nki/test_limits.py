# ruff: noqa: E501 - one row of a table stays on one line
"""What the hardware or the compiler rejects: one broken call and one sound call a limit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.instructions import INSTRUCTIONS, start_partition_allowed
from accelopt_lsp.nki.operands import outside_text
from accelopt_lsp.nki.targets import get_target
from tests.nki.calls import CURRENT, LEGACY, call, codes, t

TILE, COLUMN, PSUM = "f32[128,512]", "f32[128,1]", "f32[128,512]@psum"

# (code, dialect, call, broken arguments, sound arguments, keywords)
LIMITS: list[tuple[Any, ...]] = [
    ("R023", CURRENT, "nisa.reciprocal", ["f32[129,8]", "f32[129,8]"], ["f32[128,8]", "f32[128,8]"], {}),
    ("R023", LEGACY, "nl.exp", ["f32[256,512]"], ["f32[128,512]"], {}),
    ("R023", LEGACY, "nl.load", ["f32[4096,16]@hbm"], ["f32[128,16]@hbm"], {}),
    ("R024", CURRENT, "nisa.tensor_tensor", [TILE, TILE, "f32[64,512]", "add"], [TILE, TILE, TILE, "add"], {}),
    ("R024", LEGACY, "nisa.nc_matmul", ["bf16[64,128]", "bf16[128,512]"], ["bf16[64,128]", "bf16[64,512]"], {}),
    ("R024", CURRENT, "nisa.activation", [TILE, "exp", TILE, "f32[64,1]"], [TILE, "exp", TILE, COLUMN], {}),
    ("R026", LEGACY, "nisa.nc_matmul", ["bf16[128,129]", "bf16[128,512]"], ["bf16[128,128]", "bf16[128,512]"], {}),
    ("R026", LEGACY, "nisa.nc_matmul", ["bf16[128,128]", "bf16[128,513]"], ["bf16[128,128]", "bf16[128,512]"], {}),
    ("R026", LEGACY, "nisa.nc_transpose", ["bf16[128,256]"], ["bf16[128,128]"], {}),
    ("R026", LEGACY, "nisa.nc_transpose", ["bf16[64,32]", "vector"], ["bf16[32,32]", "vector"], {}),
    ("R027", CURRENT, "nisa.tensor_copy", [TILE, "f32[128,256]"], [TILE, "f32[128,2,256]"], {}),
    ("R002", CURRENT, "nisa.activation", [TILE, "exp", TILE, "f32[128,2]"], [TILE, "exp", TILE, COLUMN], {}),
    ("R027", CURRENT, "nisa.nc_matmul", ["f32[128,256]@psum", "bf16[128,128]", "bf16[128,512]"], [PSUM, "bf16[128,128]", "bf16[128,512]"], {}),
    ("R027", CURRENT, "nisa.nc_transpose", ["f32[128,64]@psum", "f32[128,64]"], ["f32[64,128]@psum", "f32[128,64]"], {}),
    ("R027", CURRENT, "nisa.tensor_reduce", ["f32[128,2]", "add", TILE, 1], [COLUMN, "add", TILE, 1], {}),
    ("R027", CURRENT, "nisa.dma_copy", [TILE, "f32[128,256]@hbm"], [TILE, "f32[65536]@hbm"], {}),
    ("R034", CURRENT, "nisa.nc_matmul", [TILE, "bf16[128,128]", "bf16[128,512]"], [PSUM, "bf16[128,128]", "bf16[128,512]"], {}),
    ("R034", LEGACY, "nisa.nc_matmul", ["bf16[128,128]@psum", "bf16[128,512]"], ["bf16[128,128]", "bf16[128,512]"], {}),
    ("R034", LEGACY, "nisa.nc_transpose", ["f32[128,64]@psum"], ["f32[128,64]"], {}),
    ("R034", CURRENT, "nisa.nc_transpose", ["f32[64,128]", "f32[128,64]"], ["f32[64,128]@psum", "f32[128,64]"], {}),
    ("R034", CURRENT, "nl.matmul", ["bf16[128,64]@psum", "bf16[128,64]", True], ["bf16[128,64]", "bf16[128,64]", True], {}),
    ("R034", LEGACY, "nl.exp", ["f32[128,512]@hbm"], [TILE], {}),
    ("R034", CURRENT, "nisa.dma_copy", ["f32[128,512]@hbm", PSUM], ["f32[128,512]@hbm", TILE], {}),
    ("R034", CURRENT, "nl.store", ["f32[128,512]@hbm", PSUM], ["f32[128,512]@hbm", TILE], {}),
    ("R052", CURRENT, "nisa.nc_matmul", ["f32[128,1024]@psum", "bf16[128,128]", "bf16[128,1024]"], [PSUM, "bf16[128,128]", "bf16[128,512]"], {}),
    ("R065", CURRENT, "nisa.dma_transpose", ["f32[64,128]", "bf16[128,64]@hbm"], ["bf16[64,128]", "bf16[128,64]@hbm"], {}),
    ("R068", CURRENT, "nisa.tensor_reduce", ["f32[128,4]", "add", "f32[128,4,64]", 1], ["f32[128,4]", "add", "f32[128,4,64]", 2], {}),
    ("R068", CURRENT, "nl.sum", ["f32[128,4,64]", 1], ["f32[128,4,64]", 2], {}),
    ("R070", LEGACY, "nisa.nc_matmul", ["f32[128,128]", "bf16[128,512]"], ["f32[128,128]", "f32[128,512]"], {}),
    ("R094", CURRENT, "nisa.tensor_tensor", [TILE, PSUM, PSUM, "add"], [TILE, TILE, PSUM, "add"], {}),
    ("R094", LEGACY, "nisa.tensor_tensor_scan", [PSUM, PSUM, 0.0, "multiply", "add"], [PSUM, TILE, 0.0, "multiply", "add"], {}),
    ("R094", CURRENT, "nisa.tensor_copy", [TILE, PSUM, "gpsimd"], [TILE, TILE, "gpsimd"], {}),
    ("R100", CURRENT, "nisa.reciprocal", ["f32[128,8]", "f32[128,8]+32"], ["f32[32,8]", "f32[32,8]+32"], {}),
    ("R102", CURRENT, "nisa.tensor_tensor", [TILE, TILE, TILE, "add", "scalar"], [TILE, TILE, TILE, "add", "vector"], {}),
    ("R002", CURRENT, "nisa.activation", [TILE, "exp", TILE, 1.0], [TILE, "exp", TILE, 0.0], {}),
    ("R003", CURRENT, "nisa.activation", [TILE, "exp", TILE, COLUMN, "bf16[128,1]"], [TILE, "exp", TILE, "bf16[128,1]", COLUMN], {}),
    ("R013", CURRENT, "nisa.tensor_reduce", ["f32[8,16]", "add", "f32[8,2,2,2,2,2]", 5], ["f32[8,8]", "add", "f32[8,2,2,2,2]", 4], {}),
    ("R026", CURRENT, "nisa.bn_stats", ["f32[128,6]", "f32[128,513]"], ["f32[128,6]", "f32[128,512]"], {}),
    ("R026", CURRENT, "nisa.tensor_copy", ["u8[1,70000]", "u8[1,70000]"], ["u8[1,65536]", "u8[1,65536]"], {}),
    ("R027", CURRENT, "nisa.register_load", [None, "i32[1,2]"], [None, "i32[1,1]"], {}),
    ("R027", CURRENT, "nisa.register_store", ["i32[2]@hbm", None], ["i32[1]@hbm", None], {}),
    ("R034", CURRENT, "nisa.register_load", [None, "i32[1,1]@psum"], [None, "i32[1,1]@hbm"], {}),
    ("R027", CURRENT, "nisa.bn_aggr", ["f32[128,2]", "f32[128,8]"], ["f32[128,2]", "f32[128,9]"], {}),
    ("R027", CURRENT, "nisa.tensor_partition_reduce", [TILE, "add", TILE], ["f32[1,512]", "add", TILE], {}),
    ("R034", CURRENT, "nisa.tensor_partition_reduce", ["f32[1,512]", "add", PSUM], ["f32[1,512]", "add", TILE], {}),
    ("R067", CURRENT, "nisa.memset", ["i8[128,8]", 128], ["i8[128,8]", -128], {}),
    ("R067", CURRENT, "nisa.memset", ["i32[128,8]", 0.5], ["i32[128,8]", 2.0], {}),
    ("R070", CURRENT, "nisa.nc_matmul", ["bf16[128,512]@psum", "bf16[128,128]", "bf16[128,512]"], [PSUM, "bf16[128,128]", "bf16[128,512]"], {}),
    ("R070", CURRENT, "nisa.nc_matmul", [PSUM, "i8[128,128]", "i8[128,512]"], [PSUM, "f8e4m3[128,128]", "f8e5m2[128,512]"], {}),
    ("R070", CURRENT, "nisa.nc_matmul", [PSUM, "f8e4m3fn[128,128]", "bf16[128,512]"], [PSUM, "f8e4m3[128,128]", "bf16[128,512]"], {}),
    ("R070", CURRENT, "nisa.nc_transpose", ["bf16[64,128]@psum", "f32[128,64]"], ["f32[64,128]@psum", "f32[128,64]"], {}),
    ("R097", CURRENT, "nisa.tensor_scalar", [TILE, TILE, "bitwise_and", 1], ["i32[128,512]", "i32[128,512]", "bitwise_and", 1], {}),
    ("R097", CURRENT, "nisa.tensor_tensor", ["i32[128,512]", TILE, "i32[128,512]", "left_shift"], ["i32[128,512]", "u8[128,512]", "i32[128,512]", "left_shift"], {}),
    ("R097", CURRENT, "nisa.scalar_tensor_tensor", ["i32[8,8]", "i32[8,8]", "bitwise_or", 1, "add", "i32[8,8]"], ["i32[8,8]", "i32[8,8]", "maximum", 1, "add", "i32[8,8]"], {}),
    ("R097", CURRENT, "nisa.tensor_scalar_cumulative", ["i32[8,8]", "i32[8,8]", "add", "add", 1.0], ["i16[8,8]", "i16[8,8]", "add", "add", 1.0], {}),
    ("R101", CURRENT, "nisa.tensor_scalar_reduce", [TILE, TILE, "add", 1.0, "logical_or", COLUMN], [TILE, TILE, "add", 1.0, "minimum", COLUMN], {}),
    ("R101", CURRENT, "nisa.activation_reduce", [TILE, "exp", TILE, "maximum", COLUMN], [TILE, "exp", TILE, "add", COLUMN], {}),
    ("R102", CURRENT, "nisa.tensor_scalar", ["u8[8,8]", "u8[8,8]", "bitwise_and", 1, "gpsimd"], ["u8[8,8]", "u8[8,8]", "bitwise_and", 1, "vector"], {}),
    ("R102", CURRENT, "nisa.tensor_scalar", [TILE, TILE, "maximum", 1.0, "scalar"], [TILE, TILE, "multiply", 1.0, "scalar"], {}),
    ("R102", CURRENT, "nisa.tensor_tensor", [TILE, TILE, TILE, "power", "vector"], [TILE, TILE, TILE, "power", "gpsimd"], {}),
    # microscaling formats
    ("R024", CURRENT, "nisa.nc_matmul_mx", ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[64,64]", "u8[128,128]", "u8[128,64]"], ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[128,64]"], {"target": "trn3"}),
    ("R026", CURRENT, "nisa.nc_matmul_mx", ["f32[128,8192]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,8192]", "u8[128,128]", "u8[128,8192]"], ["bf16[128,8192]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,8192]", "u8[128,128]", "u8[128,8192]"], {"target": "trn3"}),
    ("R027", CURRENT, "nisa.nc_matmul_mx", ["f32[64,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[128,64]"], ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[128,64]"], {"target": "trn3"}),
    ("R034", CURRENT, "nisa.nc_matmul_mx", ["f32[128,64]", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[128,64]"], ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[128,64]"], {"target": "trn3"}),
    ("R034", CURRENT, "nisa.nc_matmul_mx", ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[128,128]@psum", "u8[128,64]"], ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[128,64]"], {"target": "trn3"}),
    ("R073", CURRENT, "nisa.nc_matmul_mx", ["f32[128,64]@psum", "f8e5m2x4[48,128]", "f8e5m2x4[48,64]", "u8[128,128]", "u8[128,64]"], ["f32[128,64]@psum", "f8e5m2x4[64,128]", "f8e5m2x4[64,64]", "u8[128,128]", "u8[128,64]"], {"target": "trn3"}),
    ("R073", CURRENT, "nisa.nc_matmul_mx", ["f32[63,64]@psum", "f8e5m2x4[128,63]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[128,64]"], ["f32[62,64]@psum", "f8e5m2x4[128,62]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[128,64]"], {"target": "trn3"}),
    ("R073", CURRENT, "nisa.nc_matmul_mx", ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[16,64]"], ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[100,64]"], {"target": "trn3"}),
    ("R073", CURRENT, "nisa.nc_matmul_mx", ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[128,64]", "u8[128,64]"], ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[128,512]", "u8[128,64]"], {"target": "trn3"}),
    ("R100", CURRENT, "nisa.nc_matmul_mx", ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[100,128]+2", "u8[128,64]"], ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[100,128]+12", "u8[128,64]"], {"target": "trn3"}),
    ("R097", CURRENT, "nisa.nc_matmul_mx", ["f32[128,64]@psum", "u32[128,128]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[128,64]"], ["f32[128,64]@psum", "f4e2m1fnx4[128,128]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[128,64]"], {"target": "trn3"}),
    ("R097", CURRENT, "nisa.nc_matmul_mx", ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "i8[128,128]", "u8[128,64]"], ["f32[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "f8e8m0[128,128]", "u8[128,64]"], {"target": "trn3"}),
    ("R097", CURRENT, "nisa.nc_matmul_mx", ["f16[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[128,64]"], ["bf16[128,64]@psum", "f8e5m2x4[128,128]", "f8e5m2x4[128,64]", "u8[128,128]", "u8[128,64]"], {"target": "trn3"}),
    ("R073", CURRENT, "nisa.quantize_mx", ["f8e5m2x4[48,8]", "bf16[48,32]", "u8[48,8]"], ["f8e5m2x4[32,8]", "bf16[32,32]", "u8[4,8]"], {"target": "trn3"}),
    ("R073", CURRENT, "nisa.quantize_mx", ["f8e5m2x4[32,8]", "bf16[32,34]", "u8[4,8]"], ["f8e5m2x4[32,8]", "bf16[32,32]", "u8[4,8]"], {"target": "trn3"}),
    ("R027", CURRENT, "nisa.quantize_mx", ["f8e5m2x4[32,16]", "bf16[32,32]", "u8[4,16]"], ["f8e5m2x4[32,8]", "bf16[32,32]", "u8[4,8]"], {"target": "trn3"}),
    ("R034", CURRENT, "nisa.quantize_mx", ["f8e5m2x4[32,8]", "bf16[32,32]@psum", "u8[4,8]"], ["f8e5m2x4[32,8]", "bf16[32,32]", "u8[4,8]"], {"target": "trn3"}),
    ("R097", CURRENT, "nisa.quantize_mx", ["f4e2m1fnx4[32,8]", "bf16[32,32]", "u8[4,8]"], ["f8e4m3fnx4[32,8]", "f16[32,32]", "u8[4,8]"], {"target": "trn3"}),
    ("R097", CURRENT, "nisa.quantize_mx", ["f8e5m2x4[32,8]", "f32[32,32]", "u8[4,8]"], ["f8e5m2x4[32,8]", "bf16[32,32]", "f8e8m0[4,8]"], {"target": "trn3"}),
    # random numbers
    ("R094", CURRENT, "nisa.rng", ["u32[128,8]@psum", "gpsimd"], ["u32[128,8]", "gpsimd"], {"target": "trn2"}),
    ("R097", CURRENT, "nisa.rng", ["f32[128,8]"], ["i32[128,8]"], {}),
    ("R101", CURRENT, "nisa.rand2", [TILE, 1.0, 1.0], [TILE, -1.0, 1.0], {"target": "trn3"}),
    ("R097", CURRENT, "nisa.rand2", ["f8e4m3fn[128,8]", 0.0, 1.0], ["f8e4m3[128,8]", 0.0, 1.0], {"target": "trn3"}),
    ("R027", CURRENT, "nisa.set_rng_seed", ["u32[1,2]"], ["u32[1,1]"], {}),
    ("R097", CURRENT, "nisa.set_rng_seed", ["u16[1,1]"], ["f32[1,1]"], {}),
    ("R027", CURRENT, "nisa.rand_set_state", ["u32[128,24]"], ["u32[128,6]"], {"target": "trn3"}),
    ("R027", CURRENT, "nisa.rand_set_state", ["u32[128,6]", "vector"], ["u32[128,24]", "vector"], {"target": "trn3"}),
    ("R034", CURRENT, "nisa.rand_set_state", ["u32[128,6]@psum"], ["u32[128,6]"], {"target": "trn3"}),
    ("R097", CURRENT, "nisa.rand_get_state", ["i32[128,6]"], ["u32[128,6]"], {"target": "trn2"}),
    ("R034", CURRENT, "nisa.rand_get_state", ["u32[128,6]@psum"], ["u32[128,6]"], {"target": "trn2"}),
    ("R097", CURRENT, "nisa.dropout", ["i32[128,8]", "i32[128,8]", "bf16[128,1]"], ["bf16[128,8]", "bf16[128,8]", "bf16[128,1]"], {}),
    ("R097", CURRENT, "nisa.dropout", ["bf16[128,8]", "f32[128,8]", 0.5], ["f32[128,8]", "f32[128,8]", 0.5], {}),
    ("R097", CURRENT, "nisa.exponential", ["u32[128,8]", "f32[128,8]"], ["i32[128,8]", "u32[128,8]"], {"target": "trn3"}),
    ("R097", CURRENT, "nisa.exponential", ["f32[128,8]", "f8e4m3fn[128,8]"], ["f32[128,8]", "f8e4m3[128,8]"], {"target": "trn3"}),
    ("R097", CURRENT, "nisa.exponential", [TILE, TILE, 0.0, "i32[128,1]"], [TILE, TILE, 0.0, "bf16[128,1]"], {"target": "trn3"}),
    ("R101", CURRENT, "nisa.tensor_scalar_reduce", [TILE, TILE, "add", 1.0, "add", COLUMN, True], [TILE, TILE, "add", 1.0, "add", COLUMN, False], {}),
    ("R095", CURRENT, "nisa.tensor_scalar", [TILE, TILE, "abs_max", 1.0], [TILE, TILE, "maximum", 1.0], {"target": "trn2"}),
    # packed values
    ("R097", CURRENT, "nisa.tensor_tensor", ["f8e5m2x4[8,8]", "f8e5m2x4[8,8]", "f8e5m2x4[8,8]", "add"], ["u32[8,8]", "u32[8,8]", "u32[8,8]", "add"], {"target": "trn3"}),
    ("R097", CURRENT, "nisa.activation", ["f32[8,8]", "exp", "f8e4m3fnx4[8,8]"], ["f32[8,8]", "exp", "f8e4m3fn[8,8]"], {"target": "trn3"}),
    ("R097", CURRENT, "nisa.tensor_copy", ["f32[8,8]", "f8e5m2x4[8,8]"], ["f8e5m2x4[8,8]", "f8e5m2x4[8,8]"], {"target": "trn3"}),
    ("R097", CURRENT, "nisa.tensor_reduce", ["f32[8,1]", "add", "f4e2m1fnx4[8,8]", 1], ["f32[8,1]", "add", "u16[8,8]", 1], {"target": "trn3"}),
    ("R027", CURRENT, "nisa.dropout", [TILE, TILE, "f32[128,2]"], [TILE, TILE, COLUMN], {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "dialect", "name", "broken", "sound", "kwargs"),
    LIMITS,
    ids=[f"{i}-{c[0]}-{c[2]}" for i, c in enumerate(LIMITS)],
)
def test_limit(code, dialect, name, broken, sound, kwargs):
    args = {"engine": broken[-1]} if broken[-1] in ("vector", "scalar", "gpsimd") else {}
    count = -1 if args else None
    found = call(dialect, name, *broken[:count], **kwargs, **args)
    assert code in codes(found)
    message = next(v.message for v in found.violations if v.code == code)
    assert len(message) > 20
    if args:
        args = {"engine": sound[-1]}
    assert codes(call(dialect, name, *sound[:count], **kwargs, **args)) == []


@pytest.mark.parametrize(
    ("code", "name", "args", "missing", "since"),
    [
        ("R095", "nisa.quantize_mx", ["f8e5m2x4[32,8]", "bf16[32,32]", "u8[4,8]"], "trn2", "trn3"),
        ("R095", "nisa.rand2", [TILE, 0.0, 1.0], "trn2", "trn3"),
        ("R095", "nisa.rand_get_state", ["u32[128,6]"], "trn1", "trn2"),
        ("R102", "nisa.rand_get_state", ["u32[128,24]", "vector"], "trn2", "trn3"),
        ("R102", "nisa.rng", ["u32[128,6]", "gpsimd"], "trn1", "trn2"),
    ],
)
def test_generations(code, name, args, missing, since):
    assert codes(call(CURRENT, name, *args, target=missing)) == [code]
    assert codes(call(CURRENT, name, *args, target=since)) == []


def test_messages_carry_the_figures():
    found = call(LEGACY, "nl.exp", "f32[256,512]").violations
    assert found[0].message == (
        "activation: dst spans 256 partitions, the hardware has 128; loop over tiles of 128"
    )
    assert found[0].role == "dst"


def test_the_moving_limit_is_the_targets():
    args = (PSUM, "bf16[128,128]", "bf16[128,1024]")
    assert "R026" in codes(call(CURRENT, "nisa.nc_matmul", *args, target="trn2"))
    assert "R026" not in codes(call(CURRENT, "nisa.nc_matmul", *args, target="trn3"))


FP8 = (PSUM, "f8e4m3[128,2,128]", "f8e5m2[128,2,512]")


@pytest.mark.parametrize(
    ("target", "args", "kwargs", "code"),
    [
        ("trn2", FP8, {"perf_mode": "double_row"}, None),
        ("trn1", FP8, {"perf_mode": "double_row"}, "R072"),
        ("trn2", FP8, {"perf_mode": "double_row", "is_transpose": True}, "R072"),
        (
            "trn2",
            ("f32[64,512]@psum", "f8e4m3[128,2,64]", "f8e5m2[128,2,512]"),
            {"perf_mode": "double_row", "tile_position": (0, 64), "tile_size": (128, 64)},
            "R072",
        ),
        ("trn2", FP8, {"perf_mode": "triple_row"}, "R101"),
        (
            "trn2",
            (PSUM, "f8e4m3[128,4,64]", "f8e5m2[128,2,512]"),
            {"perf_mode": "double_row"},
            "R072",
        ),
        (
            "trn2",
            ("f32[32,512]@psum", "bf16[32,32]", "bf16[32,512]"),
            {"tile_position": (96, 32), "tile_size": (32, 32)},
            None,
        ),
        (
            "trn1",
            ("f32[32,512]@psum", "bf16[32,32]", "bf16[32,512]"),
            {"tile_position": (96, 32), "tile_size": (32, 32)},
            "R101",
        ),
        (
            "trn2",
            ("f32[64,512]@psum", "bf16[64,64]", "bf16[64,512]"),
            {"tile_position": (32, 0), "tile_size": (64, 64)},
            "R101",
        ),
        (
            "trn2",
            (PSUM, "bf16[128,128]", "bf16[128,512]"),
            {"tile_position": (0, 0), "tile_size": (128, 64)},
            "R026",
        ),
        ("trn2", (PSUM, "bf16[128,128]", "bf16[128,512]"), {"tile_size": (64, 64)}, "R101"),
        (
            "trn3",
            ("bf16[128,8192]@psum", "bf16[128,128]", "bf16[128,8192]"),
            {},
            None,
        ),
        ("trn3", ("f32[128,8192]@psum", "bf16[128,128]", "bf16[128,8192]"), {}, "R026"),
        ("trn3", (PSUM, "f8e4m3fn[128,128]", "f8e4m3[128,512]"), {}, "R070"),
        (
            "trn2",
            ("f32[128,128]@psum", "bf16[128,128]", "bf16[128,128]"),
            {"is_transpose": True},
            "R070",
        ),
    ],
)
def test_modes_of_products(target, args, kwargs, code):
    found = codes(call(CURRENT, "nisa.nc_matmul", *args, **kwargs, target=target))
    assert code in found if code is not None else found == []


@pytest.mark.parametrize(
    ("kwargs", "code"),
    [
        ({"op0": "multiply", "op1": "add"}, None),
        ({"op0": "bypass", "op1": "bypass"}, None),
        ({"op0": "add", "op1": "multiply"}, "R097"),
        ({"op0": "multiply", "op1": "bypass", "reverse1": True}, "R101"),
        ({"op0": "add", "op1": "bypass", "reduce_op": "multiply", "reduce_cmd": "reduce"}, "R101"),
    ],
)
def test_forms_of_activate2(kwargs, code):
    args = (TILE, "exp", TILE, 1.0, 1.0)
    found = codes(call(CURRENT, "nisa.activate2", *args, **kwargs, target="trn3"))
    assert code in found if code is not None else found == []
    assert "R095" in codes(call(CURRENT, "nisa.activate2", *args, **kwargs, target="trn2"))


def test_a_bias_has_a_float_type_in_the_legacy_dialect():
    for dtype, expected in (("i32", ["R002"]), ("f8e5m2", ["R002"]), ("bf16", [])):
        found = call(LEGACY, "nisa.activation", "exp", TILE, bias=f"{dtype}[128,1]")
        assert codes(found) == expected


def test_load_reduce_needs_its_value():
    for name, init in (
        ("nisa.tensor_scalar_reduce", {"reduce_init": 1.0}),
        ("nisa.tensor_scalar_cumulative", {"imm1": 1.0}),
    ):
        args: tuple[object, ...] = (TILE, TILE, "add", 1.0, "add")
        if name.endswith("cumulative"):
            args = (TILE, TILE, "add", "add", 1.0)
        assert codes(call(CURRENT, name, *args, reduce_cmd="load_reduce")) == ["R101"]
        assert codes(call(CURRENT, name, *args, reduce_cmd="load_reduce", **init)) == []


def test_each_finding_is_reported_once():
    found = call(CURRENT, "nl.broadcast_to", "f32[1,4096]", (256, 4096)).violations
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("partitions", "starts"),
    [
        (1, {0, 32, 64, 96}),
        (32, {0, 32, 64, 96}),
        (33, {0, 64}),
        (64, {0, 64}),
        (65, {0}),
        (128, {0}),
    ],
)
def test_start_partitions(partitions, starts):
    assert {s for s in range(128) if start_partition_allowed(s, partitions)} == starts


@given(st.integers(0, 127), st.integers(1, 128))
def test_an_allowed_tile_ends_within_the_partitions(start, partitions):
    if start_partition_allowed(start, partitions):
        assert start + partitions <= 128


def test_an_instruction_of_a_later_generation_is_rejected_earlier():
    from attrs import evolve

    later = evolve(INSTRUCTIONS["reciprocal"], since_generation=4)
    operands = {"dst": t("f32[128,8]"), "data": t("f32[128,8]")}
    found = [v.code for v in later.violations(operands, {}, get_target("trn1"))]
    assert found == ["R095"]
    assert list(later.violations(operands, {}, get_target("trn3"))) == []


@pytest.mark.parametrize(
    ("api", "args", "way"),
    [
        (
            "nisa.nc_matmul",
            [TILE, "bf16[128,128]", "bf16[128,512]"],
            "write a tile in PSUM and copy it with",
        ),
        (
            "nisa.nc_matmul",
            ["f32[128,512]@hbm", "bf16[128,128]", "bf16[128,512]"],
            "in PSUM, copy it to SBUF and store it",
        ),
        ("nisa.tensor_copy", ["f32[128,512]@hbm", TILE], "write a tile in SBUF, store it"),
        ("nisa.tensor_copy", [TILE, "f32[128,512]@hbm"], "load it into a tile first"),
        (
            "nisa.nc_matmul",
            [PSUM, "bf16[128,128]@psum", "bf16[128,512]"],
            "copy it out of PSUM with tensor_copy",
        ),
    ],
)
def test_what_to_do_about_a_memory_depends_on_the_direction(
    api: str, args: list[Any], way: str
) -> None:
    (found,) = [v for v in call(CURRENT, api, *args).violations if v.code == "R034"]
    assert way in found.message


def test_one_index_outside_is_no_range() -> None:
    assert outside_text(512, 512, 1, 512) == "index 512 leaves dimension 1 of size 512"
    assert outside_text(-1, 512, 0, 512) == "indices -1 to 512 leave dimension 0 of size 512"
