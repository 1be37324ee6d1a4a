"""Questions about paths that come from outside: from a URI, a directive, a kernel's name."""

from __future__ import annotations

from pathlib import Path


def resolved(path: Path) -> Path:
    """Where a path leads to; the path itself where that cannot be told (links in a circle)."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path.absolute()


def is_file(path: Path) -> bool:
    """Whether there is such a file; False as well for names that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
