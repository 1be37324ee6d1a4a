"""Layer 1 of the instruction table: what each hardware instruction is and what it rejects.

One entry an instruction: operands with roles and buffers, attributes, engines, availability
and limits. No NumPy, no dialect, no cost: those are layers of their own, keyed by the same id
(:mod:`~accelopt_lsp.nki.dialects`, :mod:`~accelopt_lsp.nki.costs`, and the simulator's
numerics). A test fails when an id lacks a layer.

Facts: public AWS Neuron documentation, ``nki.isa`` (NKI 0.6) and ``neuronxcc.nki.isa`` (SDK 2.26).
"""

from __future__ import annotations

from collections.abc import Mapping

from accelopt_lsp.nki.instructions import (
    elementwise,
    gather,
    movement,
    mx,
    random,
    reductions,
    search,
    selection,
    sequencer,
    tensor_engine,
    undocumented,
)
from accelopt_lsp.nki.instructions.base import (
    Instruction,
    Operand,
    start_partition_allowed,
)
from accelopt_lsp.nki.instructions.operators import (
    ACTIVATION_FUNCTIONS,
    BINARY_OPERATORS,
    REDUCTION_OPERATORS,
    UNARY_OPERATORS,
)
from accelopt_lsp.nki.instructions.violations import Violation

__all__ = [
    "ACTIVATION_FUNCTIONS",
    "BINARY_OPERATORS",
    "INSTRUCTIONS",
    "REDUCTION_OPERATORS",
    "UNARY_OPERATORS",
    "Instruction",
    "Operand",
    "Violation",
    "start_partition_allowed",
]

INSTRUCTIONS: Mapping[str, Instruction] = {
    i.id: i
    for family in (
        tensor_engine,
        elementwise,
        reductions,
        movement,
        selection,
        search,
        gather,
        random,
        mx,
        sequencer,
        undocumented,
    )
    for i in family.INSTRUCTIONS
}
"""Every instruction by id."""
