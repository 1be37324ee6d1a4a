"""Names of ``nki.language``, by group."""

from __future__ import annotations

from accelopt_lsp.nki.apis.language import (
    creation,
    logic,
    math,
    movement,
    queries,
    reductions,
)

APIS = (
    *math.APIS,
    *logic.APIS,
    *reductions.APIS,
    *movement.APIS,
    *creation.APIS,
    *queries.APIS,
)
