# ruff: noqa: E501 - one row of a table stays on one line
"""DMAs and operands whose address is known at run time: limits, what is issued, and costs."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from accelopt_lsp.nki.costs import MIN_DYNAMIC_CYCLES, instruction_cost
from accelopt_lsp.nki.operands import Dynamic, DynamicKind, Engine, OperandType
from accelopt_lsp.nki.targets import get_target
from tests.nki.calls import CURRENT, LEGACY, call, codes, t

HBM, TILE = "bf16[4096,128]@hbm", "bf16[128,128]"
VECTOR, SCALAR, GATHER = DynamicKind.VECTOR, DynamicKind.SCALAR, DynamicKind.GATHER


def at(text: str, kind: DynamicKind, index: str | None = "u32[128,1]") -> OperandType:
    """An operand whose place comes from an index."""
    operand = t(text)
    strides = (0, *operand.layout[1:]) if kind is VECTOR else operand.strides
    return evolve(
        operand, strides=strides, dynamic=Dynamic(kind, None if index is None else t(index))
    )


ROWS = at("bf16[128,128]@hbm", VECTOR)
BLOCKS = at("bf16[128,4,1,64]@hbm", VECTOR)
ANYWHERE = at(TILE, SCALAR, "i32[1,1]")

# (code, target, call, broken arguments and keywords, sound ones)
LIMITS: list[tuple[str, str, str, tuple[list[Any], dict[str, Any]], tuple[list[Any], dict[str, Any]]]] = [
    ("R064", "trn2", "nisa.dma_copy", (["f32[128,128]", TILE + "@hbm"], {"dge_mode": "hwdge"}), ([TILE, TILE + "@hbm"], {"dge_mode": "hwdge"})),
    ("R064", "trn2", "nisa.dma_copy", ([TILE, ROWS], {"dge_mode": "hwdge"}), ([TILE, ROWS], {"dge_mode": "swdge"})),
    ("R064", "trn2", "nisa.dma_copy", ([ROWS, TILE], {"dge_mode": "none"}), ([ROWS, TILE], {})),
    ("R064", "trn2", "nisa.dma_copy", ([TILE, TILE + "@hbm"], {"dge_mode": "hwdge", "engine": "vector"}), ([TILE, TILE + "@hbm"], {"dge_mode": "hwdge", "engine": "scalar"})),
    ("R095", "trn1", "nisa.dma_copy", ([TILE, TILE + "@hbm"], {"dge_mode": "hwdge"}), ([TILE, TILE + "@hbm"], {"dge_mode": "swdge"})),
    ("R095", "trn2", "nisa.dma_copy", ([TILE, TILE + "@hbm"], {"priority": 1}), ([TILE, TILE + "@hbm"], {})),
    ("R101", "trn3", "nisa.dma_copy", ([TILE, TILE + "@hbm"], {"priority": 4}), ([TILE, TILE + "@hbm"], {"priority": 3})),
    ("R098", "trn2", "nisa.dma_copy", ([TILE, TILE + "@hbm"], {"oob_mode": "skip"}), ([TILE, ROWS], {"oob_mode": "skip"})),
    ("R083", "trn2", "nisa.dma_copy", ([TILE, at("bf16[128,128]@hbm", VECTOR, "u32[128,2]")], {}), ([TILE, ROWS], {})),
    ("R065", "trn2", "nisa.dma_transpose", (["bf16[64,2,128]", "bf16[128,2,64]@hbm", (2, 0, 1)], {}), (["bf16[64,2,128]", "bf16[128,2,64]@hbm", (2, 1, 0)], {})),
    ("R065", "trn2", "nisa.dma_transpose", (["bf16[64,256]", "bf16[128,2,64]@hbm"], {}), (["bf16[64,2,128]", "bf16[128,2,64]@hbm"], {})),
    ("R065", "trn2", "nisa.dma_transpose", (["f16[64,128]", "bf16[128,64]@hbm"], {}), (["bf16[64,128]", "bf16[128,64]@hbm"], {})),
    ("R066", "trn2", "nisa.dma_transpose", (["bf16[128,32]", "bf16[32,128]@hbm"], {"dge_mode": "hwdge"}), (["bf16[128,16]", "bf16[16,128]@hbm"], {"dge_mode": "hwdge"})),
    ("R066", "trn2", "nisa.dma_transpose", (["bf16[128,2,4]", "bf16[4,2,128]@hbm"], {"dge_mode": "hwdge"}), (["bf16[128,4,4]", "bf16[4,4,128]@hbm"], {"dge_mode": "hwdge"})),
    ("R066", "trn2", "nisa.dma_transpose", (["f32[128,16]", "f32[16,128]@hbm"], {"dge_mode": "hwdge"}), (["f32[128,16]", "f32[16,128]@hbm"], {})),
    ("R066", "trn2", "nisa.dma_transpose", ([TILE, at("bf16[128,128]@hbm", VECTOR, "i32[128,1]")], {}), ([TILE, ROWS], {})),
    ("R066", "trn2", "nisa.dma_transpose", (["bf16[128,120]", at("bf16[120,128]@hbm", VECTOR, "u32[120,1]")], {}), (["bf16[128,112]", at("bf16[112,128]@hbm", VECTOR, "u32[112,1]")], {})),
    ("R066", "trn2", "nisa.dma_transpose", (["bf16[128,128]", at("bf16[128,128]@hbm", VECTOR, "u32[64,2]")], {}), (["bf16[128,256]", at("bf16[256,128]@hbm", VECTOR, "u32[128,2]")], {})),
    ("R066", "trn2", "nisa.dma_transpose", (["bf16[64,4,2,128]", at("bf16[128,4,2,64]@hbm", VECTOR)], {}), (["bf16[64,4,1,128]", BLOCKS], {})),
    ("R064", "trn2", "nisa.dma_transpose", (["bf16[64,128]", "bf16[128,64]@hbm"], {"dge_mode": "swdge"}), ([TILE, ROWS], {"dge_mode": "swdge"})),
    ("R095", "trn1", "nisa.dma_transpose", ([TILE, ROWS], {}), ([TILE, TILE + "@hbm"], {})),
    ("R095", "trn2", "nisa.tensor_copy", ([TILE, at(TILE, GATHER)], {"engine": "vector"}), ([TILE, TILE], {"engine": "vector"})),
    ("R087", "trn3", "nisa.tensor_copy", (["bf16[32,8]+32", at("bf16[32,8]+32", GATHER, "u32[32,1]")], {"engine": "vector"}), (["bf16[32,8]+32", at("bf16[32,8]+32", GATHER, "u32[32,1]+32")], {"engine": "vector"})),
    ("R087", "trn3", "nisa.tensor_copy", ([at(TILE + "@psum", GATHER), TILE], {"engine": "scalar"}), ([at(TILE + "@psum", GATHER), TILE], {"engine": "vector"})),
]  # fmt: skip


@pytest.mark.parametrize("row", LIMITS, ids=lambda r: f"{r[0]}-{r[2]}")
def test_limits(row: Any) -> None:
    code, target, name, (broken, wrong), (sound, right) = row
    assert codes(call(CURRENT, name, *broken, target=target, **wrong)) == [code]
    assert codes(call(CURRENT, name, *sound, target=target, **right)) == []


def test_legacy_transposes_take_what_the_compiler_reorders() -> None:
    for axes in ((2, 0, 1), (0, 2, 1)):
        found = call(LEGACY, "nisa.dma_transpose", "f32[16,8,4]@hbm", axes=axes)
        assert codes(found) == []
        assert found.result is not None
        assert found.result.shape == tuple((16, 8, 4)[a] for a in axes)


@pytest.mark.parametrize(
    ("rank", "shape"), [(2, (4, 16)), (3, (4, 2, 16)), (4, (4, 2, 3, 16))], ids=str
)
def test_default_axes(rank: int, shape: tuple[int, ...]) -> None:
    source = {2: "f32[16,4]", 3: "f32[16,2,4]", 4: "f32[16,2,3,4]"}[rank]
    found = call(LEGACY, "nisa.dma_transpose", source + "@hbm")
    assert found.result is not None and found.result.shape == shape


def test_an_index_is_one_more_operand_that_is_read() -> None:
    gathered = call(CURRENT, "nisa.dma_copy", TILE, ROWS).issues[0]
    assert gathered.operands == (("dst", "dst"), ("src", "src"), ("src_index", "src.index"))
    assert gathered.reads == ("src", "src.index") and gathered.writes == ("dst",)
    scattered = call(CURRENT, "nisa.dma_copy", ROWS, TILE).issues[0]
    assert scattered.reads == ("src", "dst.index")
    moved = call(CURRENT, "nisa.tensor_copy", TILE, ANYWHERE).issues[0]
    assert moved.reads == ("src", "src.index")
    register = call(CURRENT, "nisa.tensor_copy", TILE, at(TILE, DynamicKind.REGISTER, None))
    assert register.issues[0].reads == ("src",)


def test_a_row_that_is_indexed_is_a_descriptor() -> None:
    whole = call(CURRENT, "nisa.dma_copy", "bf16[128,4,64]", "bf16[128,4,64]@hbm").issues[0]
    rows = call(CURRENT, "nisa.dma_copy", "bf16[128,4,64]@hbm", at("bf16[128,4,64]@hbm", VECTOR))
    plain = call(CURRENT, "nisa.dma_copy", "bf16[128,4,64]@hbm", "bf16[128,4,64]@hbm")
    assert whole.work.dma is not None and whole.work.dma.descriptors == 128
    work = rows.issues[0].work.dma
    assert work is not None and (work.descriptors, work.descriptor_bytes) == (128, 512)
    work = plain.issues[0].work.dma
    assert work is not None and work.descriptors == 1


@pytest.mark.parametrize("kind", [SCALAR, DynamicKind.REGISTER], ids=str)
def test_run_time_places_take_at_least_600_cycles(kind: DynamicKind) -> None:
    target = get_target("trn1")
    small, large = "bf16[128,64]", "bf16[128,1024]"
    costs = {}
    for size in (small, large):
        index = "i32[1,1]" if kind is SCALAR else None
        for name, src in (("static", t(size)), ("moved", at(size, kind, index))):
            issue = call(CURRENT, "nisa.tensor_copy", size, src, engine="vector").issues[0]
            cost = instruction_cost(issue.op, Engine.VECTOR, issue.work, target)
            assert cost is not None
            costs[name, size] = cost.busy_ns * target["vector_clock"]
    assert costs["moved", small] - costs["static", small] == MIN_DYNAMIC_CYCLES - 64
    assert costs["moved", large] == costs["static", large]
