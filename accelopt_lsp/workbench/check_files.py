"""Which files a check looks at: folders, patterns and excludes."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from accelopt_lsp.nki.files import is_file
from accelopt_lsp.workbench.requests import RequestError
from accelopt_lsp.workbench.settings import Settings, settings_for

DEFAULT_EXCLUDES = frozenset(
    ".git .hg .venv venv node_modules __pycache__ build dist .tox .mypy_cache .ruff_cache "
    "site-packages".split()
)


def find_files(
    paths: Iterable[Path], settings: Settings | None = None, exclude: Sequence[str] = ()
) -> Iterator[Path]:
    """Python files of paths, folders and patterns, each once, in a stable order.

    Files that are named are always checked; excludes apply to what a folder holds.

    Raises:
        RequestError: a path does not exist, or a pattern matches nothing.
    """
    seen: set[Path] = set()
    for path in paths:
        for file in _expand(path, settings, exclude):
            key = file.resolve()
            if key not in seen:
                seen.add(key)
                yield file


def _expand(path: Path, settings: Settings | None, exclude: Sequence[str]) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    if path.is_dir():
        patterns = (*(settings or settings_for(path)).exclude, *exclude)
        yield from _walk(path, patterns)
        return
    text = str(path)
    if any(char in text for char in "*?["):
        anchor = Path(path.anchor) if path.anchor else Path()
        relative = text[len(path.anchor) :] if path.anchor else text
        matches = sorted(p for p in anchor.glob(relative) if p.is_file())
        if matches:
            yield from (m for m in matches if m.suffix in (".py", ".pyi"))
            return
        raise RequestError(f"no file matches {text}")
    raise RequestError(f"no such file or folder: {path}")


def _walk(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        here = Path(root)
        folders[:] = sorted(f for f in folders if not _excluded(here / f, folder, patterns))
        for name in sorted(names):
            file = here / name
            # A pipe or a device may be called like a file, and would be read for ever.
            if name.endswith(".py") and is_file(file) and not _excluded(file, folder, patterns):
                yield file


def _excluded(path: Path, folder: Path, patterns: tuple[str, ...]) -> bool:
    if path.name in DEFAULT_EXCLUDES:
        return True
    relative = path.relative_to(folder).as_posix()
    return any(
        fnmatch.fnmatch(relative, p) or fnmatch.fnmatch(path.name, p.rstrip("/")) for p in patterns
    )
