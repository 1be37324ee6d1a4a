"""Kept results hold only while the same imports would find the same files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.caches import clear_caches
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.workspace import Workspace
from accelopt_lsp.workbench.check import check_paths
from accelopt_lsp.workbench.check_cache import CheckCache

KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl

{imported}


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    tile = nl.ndarray((P, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[0:128, :], src=x)
    return tile
"""
TOO_MANY, FINE = "P = 256\n", "P = 128\n"


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def same_stamp(path: Path, text: str) -> None:
    """Another text of the same size whose file says that it was changed at the same time."""
    status = os.stat(path)
    path.write_text(text, "utf-8")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


FAR = {"a/b/kernel.py": "from lib.conf import P", "lib/conf.py": TOO_MANY}
MARKED = {**FAR, "pyproject.toml": ""}
PACKAGE = {"pkg/kernel.py": "from pkg.conf import P", "pkg/conf.py": TOO_MANY}
STEPS: dict[str, tuple[dict[str, str], Callable[[Path], object], bool, bool]] = {
    "project marker appears": (FAR, lambda r: write(r / "pyproject.toml"), False, True),
    "nearer marker appears": (MARKED, lambda r: write(r / "a/setup.py"), True, False),
    "marker disappears": (MARKED, lambda r: (r / "pyproject.toml").unlink(), True, False),
    "nearer namespace package": (MARKED, lambda r: write(r / "a/lib/conf.py", FINE), True, False),
    "source folder": (
        {"a/kernel.py": "from lib.conf import P", "pyproject.toml": ""},
        lambda r: write(r / "src/lib/conf.py", TOO_MANY),
        False,
        True,
    ),
    "folder becomes a package": (PACKAGE, lambda r: write(r / "pkg/__init__.py"), False, True),
    "package becomes a folder": (
        {**PACKAGE, "pkg/__init__.py": ""},
        lambda r: (r / "pkg/__init__.py").unlink(),
        True,
        False,
    ),
    "folder disappears": (MARKED, lambda r: shutil.rmtree(r / "lib"), True, False),
    "same time and size": (MARKED, lambda r: same_stamp(r / "lib/conf.py", FINE), True, False),
}


@pytest.mark.parametrize("name", STEPS)
def test_change_is_noticed(tmp_path, name):
    files, change, before, after = STEPS[name]
    root = tmp_path / "project"
    for path, text in files.items():
        write(root / path, KERNEL.format(imported=text) if "kernel" in path else text)
    kernel = next(root.rglob("kernel.py"))
    workspace = Workspace()

    def in_memory() -> bool:
        document = Document.parse(kernel.read_text("utf-8"))
        found = analyze(document, path=kernel, workspace=workspace)
        return any(d.code == "R023" for d in found.diagnostics)

    def on_disk() -> bool:
        report = check_paths([kernel], cache=CheckCache(tmp_path / "cache"), jobs=1)
        return any(d.diagnostic.code == "R023" for d in report.diagnostics)

    clear_caches()
    assert (in_memory(), on_disk()) == (before, before)
    change(root)
    workspace.refresh()
    assert (in_memory(), on_disk()) == (after, after)
