"""Numerics of sequencers: whoever runs a call puts in what its registers and cores do."""

from __future__ import annotations

from accelopt_lsp.profiler.simulator.numerics.base import Attributes, Inputs, Results, computes


@computes("register_move")
@computes("register_load")
@computes("register_store")
@computes("sendrecv")
@computes("core_barrier")
def nothing(inputs: Inputs, attrs: Attributes) -> Results:
    """What the table alone can say: registers and other cores are no operands."""
    return {}
