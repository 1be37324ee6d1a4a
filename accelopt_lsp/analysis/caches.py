"""What analyses of one process share, in one place to empty it."""

from __future__ import annotations

from accelopt_lsp.analysis import chunks
from accelopt_lsp.nki import lowering


def clear_caches() -> None:
    """Forget everything that earlier analyses left behind in this process."""
    chunks.forget()
    lowering.forget()
