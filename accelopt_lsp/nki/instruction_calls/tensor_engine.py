"""Calls of Tensor Engine instructions."""

from __future__ import annotations

from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.lowering import Builder, lowers
from accelopt_lsp.nki.operands import Buffer, Engine


@lowers("nisa.nc_matmul")
def _nc_matmul(b: Builder) -> None:
    stationary, moving = b.tile("stationary"), b.tile("moving")
    is_transpose = bool(b.values.get("is_transpose"))
    dst = b.destination((stationary.free, moving.free), FLOAT32, Buffer.PSUM)
    attrs = {"is_transpose": is_transpose, "accumulate": b.values.get("accumulate")}
    b.emit("nc_matmul", None, attrs, dst=dst, stationary="stationary", moving="moving")


@lowers("nisa.nc_transpose")
def _nc_transpose(b: Builder) -> None:
    data = b.tile("data")
    engine = b.engine(Engine.TENSOR)
    if engine is Engine.TENSOR:
        # NeuronCore-v2 writes PSUM in fp32 only; later cores keep the input type.
        dtype = b.dtype(FLOAT32 if b.target.generation < 3 and data.dtype.is_float else data.dtype)
        buffer = Buffer.PSUM
    else:
        dtype, buffer = b.dtype(data.dtype), Buffer.SBUF
    dst = b.destination((data.free, data.partitions), dtype, buffer)
    b.emit("nc_transpose", engine, {"engine": engine}, dst=dst, data="data")
