"""Python's search for cycles of garbage, put off."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected(wanted: bool = True) -> Iterator[None]:
    """Keep Python from looking for cycles of garbage while a kernel is traced or prepared.

    Nearly all that a trace makes stays, and what does not is in no cycle: looking through it again
    and again took a seventh of the time. Where values are computed, a cycle might keep large ones.
    """
    collects = wanted and gc.isenabled()
    if collects:
        gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
