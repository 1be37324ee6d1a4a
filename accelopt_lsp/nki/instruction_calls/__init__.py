"""Lowering of ``nki.isa`` calls: mostly one call, one instruction."""

from __future__ import annotations

from accelopt_lsp.nki.instruction_calls import (  # noqa: F401 - each registers its rules
    elementwise,
    movement,
    reductions,
    sequencer,
    tensor_engine,
)
