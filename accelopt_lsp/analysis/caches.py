"""What analyses of one process share, in one place to empty it."""

from __future__ import annotations

import gc

from accelopt_lsp.analysis import chunks, known_kernels
from accelopt_lsp.nki import lowering


def clear_caches() -> None:
    """Forget everything that earlier analyses left behind in this process."""
    chunks.forget()
    known_kernels.forget()
    lowering.forget()


KEPT_ANALYSES = 200
"""After so many analyses of other texts, what one left behind is dropped."""


def grow_older() -> None:
    """An analysis is over; what was not used for long is dropped.

    For processes that live long: what earlier states of edited texts left behind would otherwise
    fill the caches to their limits.
    """
    chunks.grow_older(KEPT_ANALYSES)
    known_kernels.grow_older(KEPT_ANALYSES)


def settle_collector() -> None:
    """Let the garbage collector look less often at what lives long.

    For processes that do nothing but analyze: syntax trees are many objects, hardly any of
    them in cycles, and a full collection in the middle of an analysis takes longer than it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
