"""Reductions and scans along the free axis."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.nki.instructions.base import (
    DATA,
    DST,
    Attributes,
    Instruction,
    Operand,
    Operands,
    Violation,
)
from accelopt_lsp.nki.instructions.checks import two_psum_inputs
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.targets import Target


def _reduce(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    data, dst = operands["data"], operands.get("dst")
    axes = attrs.get("axis", ())
    rank = len(data.shape)
    if any(a == 0 for a in axes):
        yield Violation("R068", "tensor_reduce cannot reduce the partition axis 0", "data")
        return
    if sorted(axes) != list(range(rank - len(axes), rank)):
        yield Violation(
            "R068",
            f"tensor_reduce axes {list(axes)} must be consecutive and end at the last axis "
            f"{rank - 1}",
            "data",
        )
        return
    kept = 1
    for size in data.shape[1 : rank - len(axes)]:
        kept *= size
    if dst is not None and (dst.partitions, dst.free) != (data.partitions, kept):
        yield Violation(
            "R027",
            f"tensor_reduce: dst is {list(dst.shape)}, the result is [{data.partitions}, {kept}]",
            "dst",
        )


INSTRUCTIONS = (
    Instruction(
        "tensor_scalar_reduce",
        "Combines a tile with a scalar and reduces the result along the free axis.",
        "dst = data op0 operand0; reduce_res = reduce_op_free(dst)",
        (
            DST,
            DATA,
            Operand("operand0", vector=True, optional=True),
            Operand("reduce_res", vector=True, written=True),
        ),
        (Engine.VECTOR,),
        ("op0", "operand0", "reverse0", "reduce_op"),
        elementwise=True,
    ),
    Instruction(
        "tensor_tensor_scan",
        "Scan along the free axis: each element depends on the one before it.",
        "r[0] = (data0[0] op0 initial) op1 data1[0]; r[i] = (data0[i] op0 r[i-1]) op1 data1[i]",
        (
            DST,
            Operand("data0"),
            Operand("data1"),
            Operand("initial", vector=True, optional=True),
        ),
        (Engine.VECTOR,),
        ("op0", "op1", "initial", "reverse0", "reverse1"),
        ("data0 and data1 not both in PSUM",),
        elementwise=True,
        check=two_psum_inputs("data0", "data1"),
    ),
    Instruction(
        "tensor_reduce",
        "Reduces along the last free axes.",
        "dst = [-] reduce(op, data, last axes)",
        (DST, DATA),
        (Engine.VECTOR,),
        ("op", "axis", "negate", "keepdims"),
        ("axes are consecutive, end at the last one, and leave out axis 0",),
        check=_reduce,
    ),
)
