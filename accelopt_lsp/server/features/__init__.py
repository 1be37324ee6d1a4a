"""The features, one file each: ``register(app)`` adds a feature's handlers to the server."""

from __future__ import annotations

from accelopt_lsp.server.features import (
    arguments,
    code_actions,
    code_lens,
    diagnostics,
    explain,
    hover,
    inlay_hints,
    lifecycle,
    optimize,
    profile,
    settings,
    synchronization,
    tracing,
)

FEATURES = (
    lifecycle,
    settings,
    synchronization,
    diagnostics,
    inlay_hints,
    code_lens,
    hover,
    code_actions,
    optimize,
    profile,
    arguments,
    explain,
    tracing,
)
