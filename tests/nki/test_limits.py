# ruff: noqa: E501 - one row of a table stays on one line
"""What the hardware or the compiler rejects: one broken call and one sound call a limit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.instructions import INSTRUCTIONS, start_partition_allowed
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
    ("R027", CURRENT, "nisa.activation", [TILE, "exp", TILE, "f32[128,2]"], [TILE, "exp", TILE, COLUMN], {}),
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
    ("R068", LEGACY, "nisa.tensor_reduce", ["add", TILE, 0], ["add", TILE, 1], {}),
    ("R068", CURRENT, "nl.sum", ["f32[128,4,64]", 1], ["f32[128,4,64]", 2], {}),
    ("R070", LEGACY, "nisa.nc_matmul", ["f32[128,128]", "bf16[128,512]"], ["f32[128,128]", "f32[128,512]"], {}),
    ("R094", CURRENT, "nisa.tensor_tensor", [TILE, PSUM, PSUM, "add"], [TILE, TILE, PSUM, "add"], {}),
    ("R094", LEGACY, "nisa.tensor_tensor_scan", [PSUM, PSUM, 0.0, "multiply", "add"], [PSUM, TILE, 0.0, "multiply", "add"], {}),
    ("R094", CURRENT, "nisa.tensor_copy", [TILE, PSUM, "gpsimd"], [TILE, TILE, "gpsimd"], {}),
    ("R100", CURRENT, "nisa.reciprocal", ["f32[128,8]", "f32[128,8]+32"], ["f32[32,8]", "f32[32,8]+32"], {}),
    ("R102", CURRENT, "nisa.tensor_tensor", [TILE, TILE, TILE, "add", "scalar"], [TILE, TILE, TILE, "add", "vector"], {}),
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


def test_messages_carry_the_figures():
    found = call(LEGACY, "nl.exp", "f32[256,512]").violations
    assert found[0].message == "activation: dst spans 256 partitions, the hardware has 128"
    assert found[0].role == "dst"


def test_the_moving_limit_is_the_targets():
    args = (PSUM, "bf16[128,128]", "bf16[128,1024]")
    assert "R026" in codes(call(CURRENT, "nisa.nc_matmul", *args, target="trn2"))
    assert "R026" not in codes(call(CURRENT, "nisa.nc_matmul", *args, target="trn3"))


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
