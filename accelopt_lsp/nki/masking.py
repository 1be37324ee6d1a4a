"""What a legacy ``mask=`` means for the operands of a call: facts for analysis and simulator."""

from __future__ import annotations

FULL_WIDTH = frozenset({"nisa.nc_matmul", "nl.matmul"})
"""Products run at full width: published profiles count masked ones like any other."""
PARTITIONS_ONLY = frozenset(
    {
        "bias",
        "bound0",
        "bound1",
        "dst_idx",
        "initial",
        "on_false",
        "operand0",
        "prob",
        "reduce_res",
        "scale",
        "vals",
    }
)
"""Parameters whose free axes are their own: a mask cuts only their partitions."""
OWN_AXES = frozenset({"nisa.max8", "nisa.nc_find_index8"})
"""Calls whose result has free axes of its own."""
