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
    """Give this process, and those that it will start, a low priority.

    Where Linux shares time among sessions (autogroups, sched(7)), the priority of a process
    counts within its own session only, and the session gets the same one. Children should not
    begin sessions of their own then: each would start with the usual priority.
    """
    if not hasattr(os, "nice"):
        return
    niceness = max(NICENESS, os.nice(0))
    os.nice(niceness - os.nice(0))
    if _GROUP.exists():
        _settle_group(niceness)


def _settle_group(niceness: int) -> None:
    for _ in range(_TRIES):
        try:
            _GROUP.write_text(str(niceness), "ascii")
        except BlockingIOError:  # the kernel takes few of these a second from ordinary users
            time.sleep(_PAUSE_SECONDS)
        except OSError:
            return
        else:
            return
