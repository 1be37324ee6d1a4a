"""Profiles that were computed before, kept in the user's cache folder.

An entry is found by everything that a job's processes are told (:func:`job_key`) and by the
version of the model (:func:`model_version`). It holds which files they read, and counts only
while these are what they were.

Nothing here may fail a job: a cache that is damaged, locked or cannot be written is as good as
none, and a damaged one is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import sqlite3
import sys
import time
import zlib
from collections.abc import Callable, Collection
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any, TypeVar

import attrs
import cattrs
from attrs import evolve
from platformdirs import user_cache_dir

import accelopt_lsp
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Job

T = TypeVar("T")
CACHE_DIR_VARIABLE = "ACCELOPT_CACHE_DIR"
FORMAT = 1
MAX_BYTES = 64 << 20
"""Size of all entries from which on the least recently used ones are dropped."""
MAX_FILES = 5000
"""A job that reads more files than this is not kept."""
_KEPT_SHARE = 0.75
_BUSY_SECONDS = 0.5
_HASHED_BYTES = 64 << 20
"""Larger files are told apart by size and time of change."""
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
_LIBRARIES = ("numpy", "ml_dtypes")


class ResultCache:
    """Profiles of earlier jobs, shared by all processes of a user.

    Args:
        folder: where the cache lives; created when it is first needed.
        max_bytes: size of all entries.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path = folder / f"profiles-{FORMAT}.sqlite3"
        self._max_bytes = max_bytes

    def find(self, job: Job) -> Profile | None:
        """The profile that running ``job`` would yield, if it is known; it says it is cached."""
        key = job_key(job)

        def look_up(database: sqlite3.Connection) -> Profile | None:
            row = database.execute("SELECT data FROM profiles WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            found = _read_entry(row[0])
            if found is None:
                database.execute("DELETE FROM profiles WHERE key = ?", (key,))
                return None
            profile, files = found
            if any(_fingerprint(path) != was for path, was in files.items()):
                return None
            database.execute("UPDATE profiles SET used = ? WHERE key = ?", (time.time(), key))
            return evolve(profile, cached=True)

        return self._use(look_up)

    def store(self, job: Job, profile: Profile, reads: Collection[str], started: float) -> None:
        """Keep the outcome of a job.

        Args:
            job: what was run.
            profile: what came of it.
            reads: files that its processes read. One that changed meanwhile leaves unknown what
                was read: nothing is kept then.
            started: time at which the job began, in seconds since the epoch.
        """
        own = str(job.cache.resolve()) + os.sep if job.cache is not None else None
        paths = {_source_of(path) for path in reads if own is None or not path.startswith(own)}
        if len(paths) > MAX_FILES or any(_changed_since(path, started) for path in paths):
            return
        files = {path: _fingerprint(path) for path in paths}
        entry = {"profile": attrs.asdict(profile), "files": files}
        data = zlib.compress(json.dumps(entry).encode("utf-8", "surrogatepass"))
        if len(data) > self._max_bytes:
            return

        def insert(database: sqlite3.Connection) -> None:
            database.execute(
                "INSERT OR REPLACE INTO profiles (key, data, size, used) VALUES (?, ?, ?, ?)",
                (job_key(job), data, len(data), time.time()),
            )
            self._trim(database)

        self._use(insert)

    def clear(self) -> None:
        """Forget everything."""
        for suffix in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(OSError):
                Path(f"{self.path}{suffix}").unlink()

    def _trim(self, database: sqlite3.Connection) -> None:
        """Drop what was not used for longest, if there is too much."""
        total = database.execute("SELECT coalesce(sum(size), 0) FROM profiles").fetchone()[0]
        if total <= self._max_bytes:
            return
        rows = database.execute("SELECT key, size FROM profiles ORDER BY used").fetchall()
        for key, size in rows:
            if total <= self._max_bytes * _KEPT_SHARE:
                break
            database.execute("DELETE FROM profiles WHERE key = ?", (key,))
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
                        "CREATE TABLE IF NOT EXISTS profiles "
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


def cache_dir() -> Path:
    """Folder of the cache: ``$ACCELOPT_CACHE_DIR`` or the platform's cache folder."""
    given = os.environ.get(CACHE_DIR_VARIABLE)
    return Path(given).expanduser() if given else Path(user_cache_dir("accelopt", appauthor=False))


def cacheable(job: Job) -> bool:
    """Whether a job does nothing but yield a profile."""
    return job.timeline is None


def job_key(job: Job) -> str:
    """Hash of all that decides about a job's profile, files that it reads left out."""
    values = {f.name: getattr(job, f.name) for f in attrs.fields(Job) if f.name not in _NO_MATTER}
    arguments = job.arguments
    values["arguments"] = [
        {name: str(spec) for name, spec in arguments.values.items()},
        sorted(arguments.origins.items()),
        arguments.grid,
    ]
    # A run that exceeds its time or its memory is a failure, and these are not kept.
    values["limits"] = job.limits.instructions
    values["path"] = os.path.abspath(job.path)
    values["read_paths"] = [os.path.abspath(path) for path in job.read_paths]
    values["reference"] = None if job.reference is None else os.path.abspath(job.reference)
    text = json.dumps([FORMAT, model_version(), _environment(), values], default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_NO_MATTER = frozenset({"timeline", "cache"})
"""Fields of a job that leave its profile as it is."""


@cache
def model_version() -> str:
    """Hash of the package's version and of all code and data that profiles come from."""
    digest = hashlib.sha256(accelopt_lsp.__version__.encode())
    root = Path(accelopt_lsp.__file__).resolve().parent
    for room in ("nki", "profiler"):
        for path in sorted((root / room).rglob("*")):
            if path.suffix in (".py", ".toml", ".json"):
                digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@cache
def _environment() -> tuple[str, ...]:
    """What the outputs of kernels and references may depend on besides files."""
    libraries = []
    for name in _LIBRARIES:
        try:
            libraries.append(version(name))
        except PackageNotFoundError:
            libraries.append("")
    paths = os.environ.get("PYTHONPATH", "")
    return (sys.executable, sys.version, platform.machine(), paths, *libraries)


def _fingerprint(path: str) -> str | None:
    """What a file holds; None if it is not there."""
    try:
        status = os.stat(path)
        if status.st_size > _HASHED_BYTES:
            return f"{status.st_size} {status.st_mtime_ns}"
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return None


def _changed_since(path: str, moment: float) -> bool:
    try:
        return os.stat(path).st_mtime > moment
    except OSError:
        # That it is not there counts as well.
        return False


def _source_of(path: str) -> str:
    """The source of compiled code, which Python itself compiles again when the source changes."""
    if not path.endswith(".pyc"):
        return path
    try:
        return source_from_cache(path)
    except ValueError:
        return path


def _read_entry(data: Any) -> tuple[Profile, dict[str, str | None]] | None:
    """A profile and its files; None if the entry is damaged."""
    try:
        entry = json.loads(zlib.decompress(data))
        profile: Profile = cattrs.Converter(forbid_extra_keys=True).structure(
            entry["profile"], Profile
        )
        files = dict(entry["files"])
    except Exception:  # noqa: BLE001 - whatever is wrong with it
        return None
    return profile, files
