"""Instructions that treat every element alike."""

from __future__ import annotations

from accelopt_lsp.nki.instructions.base import (
    DATA,
    DST,
    Instruction,
    Operand,
)
from accelopt_lsp.nki.instructions.checks import two_psum_inputs
from accelopt_lsp.nki.operands import Engine

INSTRUCTIONS = (
    Instruction(
        "activation",
        "Applies a function to scale * data + bias on the Scalar Engine; may sum along the "
        "free axis.",
        "dst = op(data * scale + bias); reduce_res = sum_free(dst)",
        (
            DST,
            DATA,
            Operand("bias", vector=True, optional=True),
            Operand("scale", vector=True, optional=True),
            Operand("reduce_res", vector=True, written=True, optional=True),
        ),
        (Engine.SCALAR,),
        ("op", "bias", "scale", "reduce_op", "reduce_cmd"),
        ("bias and scale are numbers or [P, 1]", "only add can reduce before trn3"),
        elementwise=True,
    ),
    Instruction(
        "tensor_tensor",
        "Combines two tiles element by element.",
        "dst = data1 op data2",
        (DST, Operand("data1"), Operand("data2")),
        (Engine.VECTOR, Engine.GPSIMD),
        ("op", "engine"),
        ("at most one input in PSUM",),
        elementwise=True,
        check=two_psum_inputs("data1", "data2"),
    ),
    Instruction(
        "tensor_scalar",
        "Combines a tile with up to two per-partition scalars or numbers.",
        "dst = (data op0 operand0) op1 operand1",
        (
            DST,
            DATA,
            Operand("operand0", vector=True, optional=True),
            Operand("operand1", vector=True, optional=True),
        ),
        (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD),
        ("op0", "operand0", "reverse0", "op1", "operand1", "reverse1", "engine"),
        ("operands are numbers or [P, 1]",),
        elementwise=True,
    ),
    Instruction(
        "scalar_tensor_tensor",
        "Combines a tile with a scalar and then with a second tile, in one pass.",
        "dst = (data op0 operand0) op1 operand1",
        (
            DST,
            DATA,
            Operand("operand0", vector=True, optional=True),
            Operand("operand1"),
        ),
        (Engine.VECTOR,),
        ("op0", "operand0", "reverse0", "op1", "reverse1"),
        ("data and operand1 not both in PSUM",),
        elementwise=True,
        check=two_psum_inputs("data", "operand1"),
    ),
    Instruction(
        "tensor_copy",
        "Copies a tile on chip, casting to the type of dst.",
        "dst = cast(src)",
        (DST, Operand("src")),
        (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD),
        ("engine",),
        ("GpSimd reaches no PSUM",),
        elementwise=True,
    ),
    Instruction(
        "reciprocal",
        "Reciprocal on the Vector Engine.",
        "dst = 1 / data",
        (DST, DATA),
        (Engine.VECTOR,),
        elementwise=True,
    ),
    Instruction(
        "memset",
        "Fills a tile with a constant.",
        "dst[:] = value",
        (DST,),
        (Engine.VECTOR, Engine.GPSIMD),
        ("value", "engine"),
    ),
)
