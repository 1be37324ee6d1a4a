"""Lowering of ``nki.isa`` calls: mostly one call, one instruction."""

from __future__ import annotations

from accelopt_lsp.nki.instruction_calls import (  # noqa: F401 - each registers its rules
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
)
