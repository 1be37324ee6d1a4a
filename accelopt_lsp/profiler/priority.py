"""Work in the background yields to whoever waits for an answer."""

from __future__ import annotations

import os
import time
from pathlib import Path

NICENESS = 10
_GROUP = Path("/proc/self/autogroup")
_TRIES = 3
_PAUSE_SECONDS = 0.05


def yield_to_others() -> None:
    """Give this process, and those that it will start, a low priority."""
    if hasattr(os, "nice"):
        os.nice(max(0, NICENESS - os.nice(0)))
        settle_group()


def settle_group() -> None:
    """Give the session of this process the low priority that the process itself has, if any.

    Where Linux shares time among sessions (autogroups, sched(7)), the priority of a process
    counts within its own session only.
    """
    if not hasattr(os, "nice") or (niceness := os.nice(0)) <= 0 or not _GROUP.exists():
        return
    for _ in range(_TRIES):
        try:
            _GROUP.write_text(str(niceness), "ascii")
        except BlockingIOError:  # the kernel takes few of these a second from ordinary users
            time.sleep(_PAUSE_SECONDS)
        except OSError:
            return
        else:
            return
