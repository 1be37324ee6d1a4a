"""What analyses of one process share, in one place to empty it."""

from __future__ import annotations

from accelopt_lsp.analysis import chunks, known_kernels
from accelopt_lsp.nki import lowering


def clear_caches() -> None:
    """Forget everything that earlier analyses left behind in this process."""
    chunks.forget()
    known_kernels.forget()
    lowering.forget()
