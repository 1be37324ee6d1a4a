"""Operations of ``nki.language`` whose instructions no document names.

The compiler lowers them to something that is not published; they are counted as one
instruction of unknown cost, so that no total is printed over them. The engine is assumed.
"""

from __future__ import annotations

from accelopt_lsp.nki.instructions.base import DATA, DST, Instruction, Operand
from accelopt_lsp.nki.operands import Engine

INSTRUCTIONS = (
    Instruction(
        "round_to_integer",
        "Rounds every element to an integer value, up, down or towards zero.",
        "dst = op(data), op one of ceil, floor, trunc",
        (DST, DATA),
        (Engine.VECTOR,),
        ("op",),
        ("which instructions it becomes is not documented",),
        elementwise=True,
        source="nki.language",
    ),
    Instruction(
        "remainder",
        "Remainder of a division, element by element.",
        "dst = data1 op data2, op one of mod (sign of data2), fmod (sign of data1)",
        (DST, Operand("data1", optional=True), Operand("data2", optional=True)),
        (Engine.VECTOR,),
        ("op", "data1", "data2"),
        ("which instructions it becomes is not documented",),
        elementwise=True,
        source="nki.language",
    ),
)
