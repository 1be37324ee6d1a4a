"""Calls of the random number generators."""

from __future__ import annotations

from accelopt_lsp.nki.instruction_calls.base import numbers, optional_tiles
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers
from accelopt_lsp.nki.operands import Engine


@lowers("nisa.rng")
def _rng(b: Builder) -> None:
    b.tile("dst")
    b.emit("rng", b.engine(Engine.VECTOR), {}, dst="dst")


@lowers("nisa.rand2")
def _rand2(b: Builder) -> None:
    b.tile("dst")
    operands, attrs = optional_tiles(b, "min", "max"), numbers(b, "min", "max")
    for name in ("min", "max"):
        if name not in operands and name not in attrs:
            raise LoweringError(f"{name} must be a number or a [P, 1] tile")
    b.emit("rand2", None, attrs, dst="dst", **operands)


@lowers("nisa.set_rng_seed")
def _set_rng_seed(b: Builder) -> None:
    b.tile("src_seeds")
    b.emit("set_rng_seed", None, {}, src_seeds="src_seeds")


@lowers("nisa.rand_set_state")
def _rand_set_state(b: Builder) -> None:
    b.tile("src_seeds")
    b.emit("rand_set_state", b.engine(Engine.GPSIMD), {}, src_seeds="src_seeds")


@lowers("nisa.rand_get_state")
def _rand_get_state(b: Builder) -> None:
    b.tile("dst")
    b.emit("rand_get_state", b.engine(Engine.GPSIMD), {}, dst="dst")


@lowers("nisa.dropout")
def _dropout(b: Builder) -> None:
    data = b.tile("data")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    operands, attrs = optional_tiles(b, "prob"), numbers(b, "prob")
    if not operands and not attrs:
        raise LoweringError("prob must be a number or a [P, 1] tile")
    b.emit("dropout", None, attrs, dst=dst, data="data", **operands)
