"""Profiles that were computed before, kept in the user's cache folder.

An entry is found by everything that a job's processes are told (:func:`job_key`) and by the
version of the model (:func:`model_version`). It holds which files they read, and counts only
while these are what they were.

Nothing here may fail a job (:mod:`~accelopt_lsp.profiler.store`).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import zlib
from collections.abc import Collection
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

import attrs
import cattrs
from attrs import evolve

from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Job
from accelopt_lsp.profiler.store import MAX_BYTES, Store, cache_dir, code_version

__all__ = ["ResultCache", "cache_dir", "cacheable", "job_key", "model_version"]

FORMAT = 2
MAX_FILES = 5000
"""A job that reads more files than this is not kept."""
_HASHED_BYTES = 64 << 20
"""Larger files are told apart by size and time of change."""
_LIBRARIES = ("numpy", "ml_dtypes")


class ResultCache:
    """Profiles of earlier jobs, shared by all processes of a user.

    Args:
        folder: where the cache lives; created when it is first needed.
        max_bytes: size of all entries.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self.entries = Store(folder / f"profiles-{FORMAT}.sqlite3", max_bytes)

    @property
    def path(self) -> Path:
        """The file that holds everything."""
        return self.entries.path

    def find(self, job: Job) -> Profile | None:
        """The profile that running ``job`` would yield, if it is known; it says it is cached."""
        key = job_key(job)
        data = self.entries.find([key]).get(key)
        if data is None:
            return None
        found = _read_entry(data)
        if found is None:
            self.entries.remove([key])
            return None
        profile, files = found
        if any(str(path.resolve()) in files for path in job.hidden):
            return None
        if any(_fingerprint(path) != was for path, was in files.items()):
            return None
        return evolve(profile, cached=True)

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
        self.entries.put({job_key(job): data})

    def clear(self) -> None:
        """Forget everything."""
        self.entries.clear()


def cacheable(job: Job) -> bool:
    """Whether a job does nothing but yield a profile."""
    return job.timeline is None


def job_key(job: Job) -> str:
    """Hash of all that decides about a job's profile, files that it reads left out."""
    values = {f.name: getattr(job, f.name) for f in attrs.fields(Job) if f.name not in _NO_MATTER}
    arguments = job.arguments
    values["rescaled"] = [str(r) for r in job.rescaled if r.seed in job.seeds]
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


_NO_MATTER = frozenset({"timeline", "cache", "hidden"})
"""Fields of a job that leave its profile as it is, where nothing hidden was read."""


@cache
def model_version() -> str:
    """Hash of the package's version and of all code and data that profiles come from."""
    return code_version("nki", "profiler")


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
