"""Layer 3 of the instruction table: ``nki.language`` functions as lists of instructions.

A composite is no instruction of its own but a pure function from operand descriptors to
instructions, in the order in which the compiler issues them.
"""

from __future__ import annotations

from accelopt_lsp.nki.composites import (  # noqa: F401 - each registers its rules
    elementwise,
    functions,
    matmul,
    movement,
    normalization,
    random,
    reductions,
)
