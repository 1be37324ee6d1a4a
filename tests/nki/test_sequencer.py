"""Registers, exchanges between cores and barriers: what they issue and reject."""

from __future__ import annotations

from typing import Any

import pytest

from tests.nki.calls import CURRENT, call, codes, summary

TILE = "f32[128,64]"
EXCHANGE: dict[str, Any] = {"send_to_rank": 1, "recv_from_rank": 1, "pipe_id": 0}


@pytest.mark.parametrize(
    ("name", "args", "issued"),
    [
        ("nisa.register_alloc", [], []),
        ("nisa.register_alloc", [3], ["register_move@sync"]),
        ("nisa.register_alloc", ["i32[1,1]"], ["register_load@sync"]),
        ("nisa.register_move", [None, 3], ["register_move@sync"]),
        ("nisa.register_load", [None, "i32[1,1]"], ["register_load@sync"]),
        ("nisa.register_load", [None, "f32[1]@hbm"], ["register_load@sync"]),
        ("nisa.register_store", ["i32[1]@hbm", None], ["register_store@sync"]),
    ],
)
def test_registers_are_no_operands(name: str, args: list[Any], issued: list[str]) -> None:
    lowered = call(CURRENT, name, *args)
    assert summary(lowered) == issued
    assert not lowered.violations
    assert lowered.result is None


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "issued"),
    [
        ("nisa.sendrecv", [TILE, TILE], EXCHANGE, "sendrecv@dma"),
        (
            "nisa.sendrecv",
            [TILE, TILE],
            {**EXCHANGE, "dma_engine": "gpsimd_dma"},
            "sendrecv@gpsimd",
        ),
        ("nisa.sendrecv", [TILE, TILE], {**EXCHANGE, "use_gpsimd_dma": True}, "sendrecv@gpsimd"),
        ("nisa.core_barrier", ["f32[512,64]@hbm", (0, 1)], {}, "core_barrier@gpsimd"),
        ("nisa.core_barrier", ["f32[512,64]@hbm", (0, 1), "vector"], {}, "core_barrier@vector"),
        ("nisa.core_barrier", ["f32[512,64]@hbm", 0], {}, "core_barrier@gpsimd"),
        ("nisa.core_barrier", [TILE, (0, 1)], {}, "core_barrier@gpsimd"),
    ],
)
def test_calls(name: str, args: list[Any], kwargs: dict[str, Any], issued: str) -> None:
    lowered = call(CURRENT, name, *args, target="trn2", **kwargs)
    assert summary(lowered) == [issued]
    assert not lowered.violations
    assert lowered.result is None
    assert codes(call(CURRENT, name, *args, target="trn1", **kwargs)) == ["R095"]


@pytest.mark.parametrize(
    ("code", "name", "args", "kwargs"),
    [
        ("R088", "nisa.sendrecv", [TILE, TILE], {**EXCHANGE, "send_to_rank": 2}),
        ("R088", "nisa.sendrecv", [TILE, TILE], {**EXCHANGE, "recv_from_rank": -1}),
        ("R065", "nisa.sendrecv", [TILE, "bf16[128,64]"], EXCHANGE),
        ("R027", "nisa.sendrecv", [TILE, "f32[128,32]"], EXCHANGE),
        ("R034", "nisa.sendrecv", [TILE, "f32[128,64]@psum"], EXCHANGE),
        ("R088", "nisa.core_barrier", ["f32[512,64]@hbm", (0, 2)], {}),
        ("R088", "nisa.core_barrier", ["f32[512,64]@hbm", ()], {}),
        ("R088", "nisa.core_barrier", ["f32[512,64]@hbm", 2], {}),
        ("R034", "nisa.core_barrier", ["f32[128,64]@psum", (0, 1)], {}),
        ("R102", "nisa.core_barrier", ["f32[512,64]@hbm", (0, 1), "dma"], {}),
    ],
)
def test_limits(code: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    assert code in codes(call(CURRENT, name, *args, target="trn2", **kwargs))


@pytest.mark.parametrize(
    ("dtype", "most"), [("f32", 256), ("i32", 256), ("bf16", 256), ("f16", 256), ("u8", 256)]
)
def test_exchanges_by_gpsimd_are_small(dtype: str, most: int) -> None:
    """1024 bytes a partition of 32-bit types, 512 of 16-bit types, 256 of 8-bit types."""
    for free, broken in ((most, []), (most + 1, ["R088"])):
        tile = f"{dtype}[128,{free}]"
        kwargs = {**EXCHANGE, "dma_engine": "gpsimd_dma"}
        assert codes(call(CURRENT, "nisa.sendrecv", tile, tile, target="trn2", **kwargs)) == broken
