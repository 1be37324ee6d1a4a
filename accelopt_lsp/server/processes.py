"""Process trees: who descends from a child, and how to end all of them.

A job's child starts children of its own (one for each evaluation), some in process groups of
their own. Ending a job means ending the tree, however its members are grouped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

_PROC = Path("/proc/self")
_KILL: int = getattr(signal, "SIGKILL", signal.SIGTERM)
_STOP: int = getattr(signal, "SIGSTOP", signal.SIGTERM)


@frozen(slots=True)
class Process:
    """One process. ``started`` tells it from a later one with the same number."""

    pid: int
    parent: int
    started: str


def _table() -> dict[int, Process]:
    return _read_proc() if _PROC.is_dir() else _read_ps()


def _read_proc() -> dict[int, Process]:
    table = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = Path("/proc", entry, "stat").read_text("utf-8", "replace")
            # The command, in parentheses, may hold blanks and parentheses itself.
            fields = text.rpartition(")")[2].split()
            if fields[0] not in ("Z", "X"):
                table[int(entry)] = Process(int(entry), int(fields[1]), fields[19])
    return table


def _read_ps() -> dict[int, Process]:
    table = {}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,lstart="],
            capture_output=True,
            text=True,
            timeout=2,
            check=True,
        )
        for line in done.stdout.splitlines():
            fields = line.split(None, 2)
            if len(fields) == 3 and fields[0].isdigit():
                table[int(fields[0])] = Process(int(fields[0]), int(fields[1]), fields[2])
    return table


def descendants(pid: int) -> tuple[Process, ...]:
    """Living processes below ``pid``, parents before their children."""
    table = _table()
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    pending = [pid]
    while pending:
        for child in children.get(pending.pop(), []):
            found.append(child)
            pending.append(child.pid)
    return tuple(found)


def kill(pid: int) -> None:
    """End one process at once; it may be gone already."""
    _signal(pid, _KILL)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_descendants(pid: int) -> None:
    """End everything below a process, but not the process itself."""
    stopped: set[int] = set()
    # A stopped process starts no further children, so this comes to an end.
    while new := [p.pid for p in descendants(pid) if p.pid not in stopped]:
        for member in new:
            _signal(member, _STOP)
        stopped.update(new)
    for member in stopped:
        kill(member)


def kill_tree(pid: int) -> None:
    """End a process and all its descendants at once."""
    _signal(pid, _STOP)
    kill_descendants(pid)
    kill(pid)


def kill_survivors(family: Iterable[Process]) -> None:
    """End those of ``family`` that still live, with everything they have started since."""
    members = list(family)
    table = _table() if members else {}
    for process in members:
        now = table.get(process.pid)
        if now is not None and now.started == process.started:
            kill_tree(process.pid)
