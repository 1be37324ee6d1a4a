"""Results kept in the user's cache folder, shared by all processes of a user.

Nothing here may fail a command: a store that is damaged, locked or cannot be written is as good
as none, and a damaged one is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from platformdirs import user_cache_dir

import accelopt_lsp

T = TypeVar("T")
CACHE_DIR_VARIABLE = "ACCELOPT_CACHE_DIR"
MAX_BYTES = 64 << 20
"""Size of all entries from which on the least recently used ones are dropped."""
_KEPT_SHARE = 0.75
_BUSY_SECONDS = 0.5
_AT_ONCE = 500
"""Keys in one query."""
_PASSING = frozenset(
    (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
    )
)
"""What says nothing about the file itself; with any other error it is damaged."""


def cache_dir() -> Path:
    """Folder of the caches: ``$ACCELOPT_CACHE_DIR`` or the platform's cache folder."""
    given = os.environ.get(CACHE_DIR_VARIABLE)
    return Path(given).expanduser() if given else Path(user_cache_dir("accelopt", appauthor=False))


@cache
def code_version(*rooms: str) -> str:
    """Hash of the package's version and of all code and data of some rooms."""
    digest = hashlib.sha256(accelopt_lsp.__version__.encode())
    root = Path(accelopt_lsp.__file__).resolve().parent
    for room in rooms:
        for path in sorted((root / room).rglob("*")):
            if path.suffix in (".py", ".toml", ".json"):
                digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


class Store:
    """Bytes by key in one SQLite file.

    Args:
        path: the file; created when it is first needed.
        max_bytes: size of all entries.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self.max_bytes = max_bytes

    def find(self, keys: Collection[str]) -> dict[str, bytes]:
        """The entries that there are, which count as used now."""
        wanted = list(keys)

        def look_up(database: sqlite3.Connection) -> dict[str, bytes]:
            found: dict[str, bytes] = {}
            for start in range(0, len(wanted), _AT_ONCE):
                part = wanted[start : start + _AT_ONCE]
                marks = ",".join("?" * len(part))
                rows = database.execute(
                    f"SELECT key, data FROM entries WHERE key IN ({marks})",
                    part,
                )
                found.update(rows.fetchall())
            now = [(time.time(), key) for key in found]
            database.executemany("UPDATE entries SET used = ? WHERE key = ?", now)
            return found

        return self._use(look_up) or {}

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Keep entries; one that is too large for the whole store is not kept."""
        now = time.time()
        rows = [(k, v, len(v), now) for k, v in entries.items() if len(v) <= self.max_bytes]

        def insert(database: sqlite3.Connection) -> None:
            database.executemany(
                "INSERT OR REPLACE INTO entries (key, data, size, used) VALUES (?, ?, ?, ?)", rows
            )
            self._trim(database)

        if rows:
            self._use(insert)

    def remove(self, keys: Collection[str]) -> None:
        """Forget entries."""
        rows = [(key,) for key in keys]
        self._use(lambda d: d.executemany("DELETE FROM entries WHERE key = ?", rows))

    def clear(self) -> None:
        """Forget everything."""
        for suffix in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(OSError):
                Path(f"{self.path}{suffix}").unlink()

    def _trim(self, database: sqlite3.Connection) -> None:
        """Drop what was not used for longest, if there is too much."""
        total = database.execute("SELECT coalesce(sum(size), 0) FROM entries").fetchone()[0]
        if total <= self.max_bytes:
            return
        rows = database.execute("SELECT key, size FROM entries ORDER BY used").fetchall()
        for key, size in rows:
            if total <= self.max_bytes * _KEPT_SHARE:
                break
            database.execute("DELETE FROM entries WHERE key = ?", (key,))
            total -= size

    def _use(self, action: Callable[[sqlite3.Connection], T]) -> T | None:
        """One transaction. Without a usable database: None."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS)) as database:
                database.execute("PRAGMA auto_vacuum = FULL")
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = NORMAL")
                with database:
                    database.execute(
                        "CREATE TABLE IF NOT EXISTS entries "
                        "(key TEXT PRIMARY KEY, data BLOB, size INTEGER, used REAL)"
                    )
                    return action(database)
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code is None or code & 0xFF not in _PASSING:
                self.clear()
        except OSError:
            pass
        return None
