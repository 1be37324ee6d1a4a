"""Calls of Tensor Engine instructions."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.instruction_calls.base import default_copy_engine, name_of
from accelopt_lsp.nki.instructions.tensor_engine import rows_of
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers
from accelopt_lsp.nki.operands import Buffer, Engine


@lowers("nisa.nc_matmul")
def _nc_matmul(b: Builder) -> None:
    stationary, moving = b.tile("stationary"), b.tile("moving")
    is_transpose = bool(b.values.get("is_transpose"))
    mode = name_of(b.values.get("perf_mode"), "none")
    attrs: dict[str, Any] = {
        "is_transpose": is_transpose,
        "accumulate": b.values.get("accumulate"),
    }
    if mode != "none":
        attrs["perf_mode"] = mode
    for name in ("tile_position", "tile_size"):
        if b.values.get(name):
            attrs[name] = _pair(name, b.values[name])
    for name in ("is_stationary_onezero", "is_moving_onezero"):
        if b.values.get(name):
            attrs[name] = True
    dtype = FLOAT32
    if is_transpose and b.target.generation >= 3:
        # Transpose mode moves bits: PSUM holds the input's type (trainium2_arch).
        dtype = stationary.dtype
        attrs["exact"] = True
    shape = (rows_of(stationary, attrs.get("perf_mode")), rows_of(moving, attrs.get("perf_mode")))
    dst = b.destination(shape, dtype, Buffer.PSUM)
    b.emit("nc_matmul", None, attrs, dst=dst, stationary="stationary", moving="moving")


def _pair(name: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple | list):
        raise LoweringError(f"{name} must be a (row, column) pair, got {value!r}")
    return tuple(value)


@lowers("nisa.nc_transpose")
def _nc_transpose(b: Builder) -> None:
    """A transpose; where the legacy call casts as well, a copy into SBUF does that."""
    data = b.tile("data")
    # The Tensor Engine reads SBUF and writes PSUM; the Vector Engine has both at both ends, but
    # takes 32 by 32 elements only.
    onto_sbuf = "dst" in b.types and b.types["dst"].buffer is Buffer.SBUF
    elsewhere = data.buffer is Buffer.PSUM or onto_sbuf
    vector = elsewhere and max(data.partitions, data.free) <= 32
    engine = b.engine(Engine.VECTOR if vector else Engine.TENSOR)
    shape = (data.free, data.partitions)
    if engine is Engine.TENSOR:
        # NeuronCore-v2 writes PSUM in fp32 only; later cores keep the input type.
        natural = FLOAT32 if b.target.generation < 3 and data.dtype.is_float else data.dtype
        buffer = Buffer.PSUM
    else:
        natural, buffer = data.dtype, Buffer.SBUF
    wanted = b.dtype(natural)
    if "dst" in b.types or wanted == natural:
        dst = b.destination(shape, wanted, buffer)
        b.emit("nc_transpose", engine, {"engine": engine}, dst=dst, data="data")
        return
    transposed = b.temporary(shape, natural, buffer)
    b.emit("nc_transpose", engine, {"engine": engine}, dst=transposed, data="data")
    copy = default_copy_engine(b, b.types[transposed])
    b.emit("tensor_copy", copy, {}, dst=b.returns(shape, wanted), src=transposed)
