"""The repository's own rules: what may stand in it, who imports whom, what ships."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from accelopt_lsp import __version__

LINE_LIMIT = 600
# Assembled here, so that this file does not contain what it forbids.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:wo" + r"rk|ro" + r"ot|home/[a-z]+)/|\.lib" + r"rary/")
REGISTRY_HOST = re.compile(
    "|".join(["registry.npm" + "js", "pypi" + r"\.org", "files.python" + "hosted", "yarn" + "pkg"])
)
UNFINISHED = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]) + r")\b")
SOURCE = {".py", ".ts", ".mjs", ".sh"}


def tracked(root: Path) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("not a git checkout: which files belong to the project is unknown")
    files = [root / name for name in listing.stdout.decode().split("\0") if name]
    return [file for file in files if file.is_file()]


def texts(root: Path) -> list[tuple[str, str]]:
    found = []
    for file in tracked(root):
        try:
            found.append((str(file.relative_to(root)), file.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue
    return found


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("a path of one machine", MACHINE_PATH),
        ("a package registry's host", REGISTRY_HOST),
        ("unfinished work", UNFINISHED),
    ],
    ids=["paths", "hosts", "unfinished"],
)
def test_no_file_mentions(what: str, pattern: re.Pattern[str], repository: Path) -> None:
    hits = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in texts(repository)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not hits, f"{what}:\n" + "\n".join(hits)


def test_the_patterns_find_what_they_are_for() -> None:
    assert MACHINE_PATH.search("open('/ro" + "ot/x')")
    assert not MACHINE_PATH.search("src/wo" + "rk/x")
    assert REGISTRY_HOST.search("https://registry.npm" + "js.org/a.tgz")


def test_source_files_stay_small(repository: Path) -> None:
    long = {
        name: text.count("\n")
        for name, text in texts(repository)
        if Path(name).suffix in SOURCE and text.count("\n") > LINE_LIMIT
    }
    assert not long


def test_import_contracts_hold(repository: Path) -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    result = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("module", ["accelopt_lsp.server", "accelopt_lsp.analysis"])
def test_importing_it_loads_no_numerics(module: str) -> None:
    heavy = {"numpy", "ml_dtypes", "openai"}
    code = f"import sys, {module}; print(*sorted({heavy} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == ""


def test_wheel_holds_the_package_and_its_data_only(repository: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=repository, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"accelopt_lsp-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    info = f"accelopt_lsp-{__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"accelopt_lsp", info}
    assert f"{info}/licenses/LICENSE" in names
    source = {
        name
        for name, _ in texts(repository)
        if name.startswith("accelopt_lsp/") and "__pycache__" not in name
    }
    assert {name for name in names if name.startswith("accelopt_lsp/")} >= source
    assert "accelopt_lsp/nki/data/targets.toml" in names


def test_pythons_parser_is_called_in_one_place(repository: Path) -> None:
    """Two threads must not parse at once; the simulator's children have one thread each."""
    package = repository / "accelopt_lsp"
    alone = {package / "nki" / "python_source.py", package / "nki" / "dialects.py"}
    found = [
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if "ast.parse(" in file.read_text("utf-8")
        and file not in alone
        and not file.is_relative_to(package / "profiler" / "simulator")
    ]
    assert found == []
