"""Questions about paths that come from outside: from a URI, a directive, a kernel's name."""

from __future__ import annotations

import stat
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


def file_size(path: Path) -> int:
    """Bytes of a file that ends: one that is none (a device, a pipe) may never do so.

    Raises:
        OSError: there is no such file, or it is none.
        ValueError: no file can be called so.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{path} is no file")
    return found.st_size
