"""What every test shares: isolated user directories, paths, and golden files."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
_SCRATCH = pytest.StashKey[Path]()
_USER_DIRECTORIES = {
    "ACCELOPT_DATA_DIR": "accelopt",
    "XDG_DATA_HOME": "data",
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "config",
    "XDG_STATE_HOME": "state",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write golden files from the current results instead of comparing with them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep the developer's own memory, runs, settings and keys out of the tests, and vice versa."""
    scratch = Path(tempfile.mkdtemp(prefix="accelopt-tests-"))
    config.stash[_SCRATCH] = scratch
    for name in [n for n in os.environ if n.startswith(("ACCELOPT_", "OPENAI_"))]:
        del os.environ[name]
    for name, folder in _USER_DIRECTORIES.items():
        os.environ[name] = str(scratch / folder)
        (scratch / folder).mkdir()


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_SCRATCH], ignore_errors=True)


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def examples() -> Path:
    """Folder of the example kernels."""
    return ROOT / "examples"


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory of this test's own, where memory and runs are stored."""
    path = tmp_path / "accelopt"
    path.mkdir()
    monkeypatch.setenv("ACCELOPT_DATA_DIR", str(path))
    return path


class Golden:
    """Compares a result with a file, or writes the file under ``--update-golden``."""

    def __init__(self, folder: Path, update: bool) -> None:
        self.folder = folder
        self.update = update

    def __call__(self, actual: Any, path: str | Path) -> None:
        """Check one result.

        Parameters
        ----------
        actual
            A string is compared as text, anything else as indented JSON.
        path
            The golden file; a relative path starts at ``golden/`` beside the test file.
        """
        file = self.folder / path
        text = actual if isinstance(actual, str) else json.dumps(actual, indent=2) + "\n"
        if self.update:
            if not file.is_file() or file.read_text(encoding="utf-8") != text:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            return
        name = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
        if not file.is_file():
            pytest.fail(f"{name} is missing; write it with --update-golden, then read it")
        expected = file.read_text(encoding="utf-8")
        if text != expected:
            lines = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), str(name), "result", lineterm=""
            )
            pytest.fail("\n".join(lines) or f"{name} differs in its line ends", pytrace=False)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The comparison with golden files; see :class:`Golden`."""
    return Golden(request.path.parent / "golden", request.config.getoption("--update-golden"))
