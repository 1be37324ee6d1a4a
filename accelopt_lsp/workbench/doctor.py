"""Explain an installation: what is there, what is missing, what that means."""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import os
import platform
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from attrs import frozen

import accelopt_lsp
from accelopt_lsp.agents.database import data_dir
from accelopt_lsp.profiler.store import cache_dir
from accelopt_lsp.workbench.doctor_runs import (
    Unanswered,
    kernel_runs,
    script,
    script_beside_python,
    server_answers,
)
from accelopt_lsp.workbench.project_file import project_problems


@frozen(slots=True)
class Finding:
    """One checked point.

    Attributes:
        name: what was checked.
        ok: True fine, False a problem, None only worth knowing.
        detail: what was found, and what to do where it is a problem.
    """

    name: str
    ok: bool | None
    detail: str


_PACKAGES = (
    "pygls",
    "lsprotocol",
    "tree-sitter",
    "tree-sitter-python",
    "numpy",
    "ml_dtypes",
    "openai",
    "platformdirs",
    "attrs",
    "cattrs",
    "click",
    "rich",
)


def examine() -> tuple[Finding, ...]:
    """Check this installation; the server and a kernel are run for it. Never raises."""
    return (
        Finding("accelopt-lsp", True, f"{accelopt_lsp.__version__} in {_home()}"),
        _python(),
        *(_package(name) for name in _PACKAGES),
        _sqlite(),
        _data_folder(),
        _cache_folder(),
        _sandbox(),
        _tried("kernel run", kernel_runs, "a kernel ran in the sandbox"),
        _tried("language server", server_answers, "answered initialize"),
        _editors(),
        _project(),
        _sdk(),
    )


def _tried(name: str, work: Callable[[], Awaitable[float]], done: str) -> Finding:
    """Try something out; a defect of ours is a finding, too."""

    async def run() -> float:
        return await work()

    try:
        seconds = asyncio.run(run())
    except Exception as error:
        what = str(error) if isinstance(error, Unanswered) else f"{type(error).__name__}: {error}"
        return Finding(name, False, f"{what}; ACCELOPT_LOG_LEVEL=DEBUG says more")
    return Finding(name, True, f"{done} in {seconds:.1f} s")


def _editors() -> Finding:
    """What an editor has to start."""
    found, own = script(), script_beside_python()
    if found is not None:
        return Finding("editors", True, f"start {found}; docs/editors.md has their settings")
    command = str(own) if own is not None else f"{sys.executable} -m accelopt_lsp serve"
    return Finding(
        "editors",
        None,
        f"accelopt-lsp is not on the PATH: have your editor start {command}",
    )


def _project() -> Finding:
    """The settings that hold in the working folder."""
    name = "project settings"
    try:
        found = project_problems(Path.cwd())
    except OSError as error:
        return Finding(name, None, str(error))
    if found is None:
        return Finding(name, None, "no pyproject.toml here; the defaults count")
    file, problems = found
    if not problems:
        return Finding(name, True, str(file))
    first = problems[0]
    return Finding(name, False, f"{file}:{first.span.start.line}: {first.message}")


def _home() -> Path:
    return Path(accelopt_lsp.__file__).parent


def _python() -> Finding:
    version = platform.python_version()
    ok = sys.version_info >= (3, 11)
    detail = f"{version} at {sys.executable}"
    return Finding("Python", ok, detail if ok else f"{detail}; 3.11 or later is needed")


def _package(name: str) -> Finding:
    try:
        return Finding(name, True, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, False, f"missing; run: {sys.executable} -m pip install {name}")


def _sqlite() -> Finding:
    with sqlite3.connect(":memory:") as connection:
        options = {row[0] for row in connection.execute("PRAGMA compile_options")}
    if "ENABLE_FTS5" in options:
        return Finding("SQLite", True, f"{sqlite3.sqlite_version} with full-text search")
    return Finding(
        "SQLite",
        None,
        f"{sqlite3.sqlite_version} without FTS5; the memory is searched by tags and plain text",
    )


def _can_be_written(folder: Path) -> bool:
    """A folder that is not there yet can be made where the one above it can be written."""
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK)


def _data_folder() -> Finding:
    folder = data_dir()
    if _can_be_written(folder):
        return Finding("data folder", True, str(folder))
    return Finding(
        "data folder",
        False,
        f"{folder} cannot be written; set ACCELOPT_DATA_DIR to a folder that can",
    )


def _cache_folder() -> Finding:
    folder = cache_dir()
    if _can_be_written(folder):
        return Finding("cache folder", True, str(folder))
    return Finding(
        "cache folder",
        None,
        f"{folder} cannot be written: nothing is kept between runs; set ACCELOPT_CACHE_DIR",
    )


def _sandbox() -> Finding:
    system = platform.system()
    if system == "Linux":
        return Finding("sandbox", True, "kernels run in a restricted child process")
    return Finding(
        "sandbox",
        None,
        f"on {system} the child is restricted by Python's audit hooks and limits only",
    )


def _sdk() -> Finding:
    present = [m for m in ("neuronxcc", "nki") if _installed(m)]
    if present:
        return Finding(
            "Neuron SDK", None, f"found {', '.join(present)}; the simulator uses its own stand-ins"
        )
    return Finding("Neuron SDK", None, "not installed; none is needed for the simulator")


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
