"""Random values of ``nki.language``."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.composites.elementwise import plain
from accelopt_lsp.nki.composites.spread import spread_partitions
from accelopt_lsp.nki.dtypes import FLOAT32, get_dtype
from accelopt_lsp.nki.instruction_calls.base import emit_tensor_scalar
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers
from accelopt_lsp.nki.operands import Buffer, Engine


@lowers("nl.rand")
def _rand(b: Builder) -> None:
    """rand2 from the fourth generation on, before it random bits scaled to 0 up to 1.

    rng and rand2 are documented (release notes of NKI 0.3); assumed is how bits become
    fractions: 24 of them, which float32 holds exactly.
    """
    shape = tuple(int(n) for n in b.values["shape"])
    if len(shape) < 2:
        raise LoweringError(f"nl.rand makes tiles of two or more dimensions, got {list(shape)}")
    dst = b.returns(shape, b.dtype(FLOAT32), _buffer(b.values.get("buffer")))
    if b.target.generation >= 4:
        b.emit("rand2", None, {"min": 0.0, "max": 1.0}, dst=dst)
        return
    bits = b.temporary(shape, get_dtype("uint32"))
    b.emit("rng", None, {}, dst=bits)
    kept = b.temporary(shape, get_dtype("uint32"))
    emit_tensor_scalar(b, kept, bits, "right_shift", 8, engine=Engine.VECTOR)
    emit_tensor_scalar(b, dst, kept, "multiply", 2.0**-24, engine=Engine.VECTOR)


def _buffer(given: Any) -> Buffer:
    return Buffer.PSUM if str(given).rpartition(".")[2] == "psum" else Buffer.SBUF


@lowers("nl.random_seed")
def _random_seed(b: Builder) -> None:
    """set_rng_seed; a number is written to a tile first."""
    if b.is_tile("seed"):
        b.emit("set_rng_seed", None, {}, src_seeds="seed")
        return
    if not b.legacy:
        raise LoweringError("nl.random_seed takes a [1, 1] tile in SBUF or PSUM", "R091")
    seed = b.temporary((1, 1), get_dtype("uint32"))
    b.emit("memset", Engine.VECTOR, {"value": plain(b.values["seed"])}, dst=seed)
    b.emit("set_rng_seed", None, {}, src_seeds=seed)


@lowers("nl.dropout")
def _dropout(b: Builder) -> None:
    x = b.tile("x")
    dst = b.returns(x.shape, b.dtype(x.dtype))
    if not b.is_tile("rate"):
        b.emit("dropout", None, {"prob": plain(b.values["rate"])}, dst=dst, data="x")
        return
    rate = spread_partitions(b, "rate", x.partitions)
    b.emit("dropout", None, {}, dst=dst, data="x", prob=rate)
