"""Which process is at work on a run, so that others can tell whether it still is."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path


def this_process() -> str:
    """Host, number and start time of this process, as one word."""
    return f"{socket.gethostname()}/{os.getpid()}/{_started(os.getpid()) or ''}"


def is_alive(process: str | None) -> bool | None:
    """Whether a process still runs; None if that cannot be told from here."""
    host, _, rest = (process or "").partition("/")
    number, _, started = rest.partition("/")
    if host != socket.gethostname() or not number.isdigit() or sys.platform == "win32":
        return None
    if int(number) == os.getpid():
        return started == (_started(os.getpid()) or "")
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    now = _started(int(number))
    # Numbers are used again; where start times are known, they tell processes apart.
    return now == started if now is not None and started else True


def _started(number: int) -> str | None:
    """Clock ticks from the machine's start to a process's; None where no file says so."""
    try:
        text = Path(f"/proc/{number}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    # A process that has ended and was not waited for is no longer at work.
    return None if len(fields) < 20 else f"{fields[19]}{'z' if fields[0] in 'ZX' else ''}"
