"""Layer 5 of the instruction table: what every instruction computes, in NumPy.

Inputs are float32 views of the operands (integers as themselves); arithmetic is in float32 as
inside the engines. Results are unrounded: whoever stores them rounds to the destination's type.
"""

from __future__ import annotations

from accelopt_lsp.profiler.simulator.numerics import (  # noqa: F401 - each registers its instructions
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
from accelopt_lsp.profiler.simulator.numerics.base import NUMERICS, Numeric
from accelopt_lsp.profiler.simulator.numerics.functions import UNARY
from accelopt_lsp.profiler.simulator.numerics.operators import (
    BINARY,
    BITWISE,
    REDUCERS,
    UnknownOperator,
    operate,
)

__all__ = [
    "BINARY",
    "BITWISE",
    "NUMERICS",
    "REDUCERS",
    "UNARY",
    "Numeric",
    "UnknownOperator",
    "operate",
]
