"""Products and transposes of ``nki.language``."""

from __future__ import annotations

from accelopt_lsp.nki.dtypes import FLOAT32, DType
from accelopt_lsp.nki.instruction_calls.base import (
    default_copy_engine,
)
from accelopt_lsp.nki.lowering import Builder, lowers
from accelopt_lsp.nki.operands import Buffer, Engine, OperandType


@lowers("nl.matmul")
def _matmul(b: Builder) -> None:
    """The stationary must have the contraction on partitions: x is transposed if it has not."""
    b.tile("x")
    y = b.tile("y")
    stationary = in_sbuf(b, "x")
    if not b.values.get("transpose_x"):
        stationary = transposed(b, stationary)
    moving = in_sbuf(b, "y")
    rows = b.types[stationary].free
    dst = b.returns((rows, y.free), FLOAT32, Buffer.PSUM)
    attrs = {"is_transpose": False, "accumulate": None if not b.legacy else False}
    b.emit("nc_matmul", None, attrs, dst=dst, stationary=stationary, moving=moving)


def in_sbuf(b: Builder, slot: str) -> str:
    """An operand where the Tensor Engine reads: the legacy dialect copies it out of PSUM."""
    given = b.types[slot]
    if not b.legacy or given.buffer is not Buffer.PSUM:
        return slot
    copied = b.temporary(given.shape, given.dtype)
    b.emit("tensor_copy", default_copy_engine(b, given), {}, dst=copied, src=slot)
    return copied


def transposed(b: Builder, slot: str) -> str:
    """Tensor Engine transpose into PSUM and a copy back to SBUF."""
    given = b.types[slot]
    psum = b.temporary((given.free, given.partitions), transpose_dtype(b, given), Buffer.PSUM)
    b.emit("nc_transpose", Engine.TENSOR, {"engine": Engine.TENSOR}, dst=psum, data=slot)
    result = b.temporary((given.free, given.partitions), given.dtype)
    b.emit("tensor_copy", default_copy_engine(b, b.types[psum]), {}, dst=result, src=psum)
    return result


def transpose_dtype(b: Builder, given: OperandType) -> DType:
    """NeuronCore-v2 writes PSUM in fp32 only; later cores keep the input type."""
    return FLOAT32 if b.target.generation < 3 else given.dtype


@lowers("nl.transpose")
def _transpose(b: Builder) -> None:
    x = b.tile("x")
    shape = (x.free, x.partitions)
    if max(shape) <= 32:
        dst = b.returns(shape, b.dtype(x.dtype))
        b.emit("nc_transpose", Engine.VECTOR, {"engine": Engine.VECTOR}, dst=dst, data="x")
        return
    source = in_sbuf(b, "x")
    dst = b.returns(shape, b.dtype(transpose_dtype(b, x)), Buffer.PSUM)
    b.emit("nc_transpose", Engine.TENSOR, {"engine": Engine.TENSOR}, dst=dst, data=source)
