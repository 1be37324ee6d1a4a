"""Calls of sequencers: registers, and cores that wait for each other."""

from __future__ import annotations

from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers
from accelopt_lsp.nki.operands import Engine


@lowers("nisa.register_alloc")
def _register_alloc(b: Builder) -> None:
    if b.values.get("x") is None:
        return
    if b.is_tile("x"):
        # Early versions loaded the first number from a tile.
        b.emit("register_load", None, {}, src="x")
        return
    b.emit("register_move", None, {})


@lowers("nisa.register_move")
def _register_move(b: Builder) -> None:
    for name in ("src", "imm"):
        if b.is_tile(name):
            raise LoweringError("a tile is read into a register by nisa.register_load")
    b.emit("register_move", None, {})


@lowers("nisa.register_load")
def _register_load(b: Builder) -> None:
    b.tile("src")
    b.emit("register_load", None, {}, src="src")


@lowers("nisa.register_store")
def _register_store(b: Builder) -> None:
    b.tile("dst")
    b.emit("register_store", None, {}, dst="dst")


@lowers("nisa.sendrecv")
def _sendrecv(b: Builder) -> None:
    b.tile("dst"), b.tile("src")
    by_gpsimd = str(b.values.get("dma_engine")).rpartition(".")[2] == "gpsimd_dma"
    by_gpsimd = by_gpsimd or bool(b.values.get("use_gpsimd_dma"))
    attrs = {
        "send_to_rank": b.values["send_to_rank"],
        "recv_from_rank": b.values["recv_from_rank"],
        "pipe_id": b.values["pipe_id"],
        "dma_engine": "gpsimd_dma" if by_gpsimd else "dma",
    }
    engine = Engine.GPSIMD if by_gpsimd else Engine.DMA
    b.emit("sendrecv", engine, attrs, dst="dst", src="src")


@lowers("nisa.core_barrier")
def _core_barrier(b: Builder) -> None:
    b.tile("data")
    cores = b.values["cores"]
    if isinstance(cores, int):
        # A number alone, as in "(0)", is what kernels of AWS pass for one core.
        cores = (cores,)
    b.emit("core_barrier", b.engine(Engine.GPSIMD), {"cores": cores}, data="data")
