"""The features, one file each: ``register(app)`` adds a feature's handlers to the server."""

from __future__ import annotations

from accelopt_lsp.server.features import (
    arguments,
    code_actions,
    code_lens,
    completion,
    definition,
    diagnostics,
    explain,
    folding,
    hover,
    inlay_hints,
    lifecycle,
    optimize,
    profile,
    semantic_tokens,
    settings,
    signature_help,
    symbols,
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
    completion,
    signature_help,
    definition,
    symbols,
    folding,
    semantic_tokens,
    code_actions,
    optimize,
    profile,
    arguments,
    explain,
    tracing,
)
