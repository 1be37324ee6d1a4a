"""nki-library's own integration tests, which compare its kernels with PyTorch references.

They run in their simulation mode, in a copy of the checkout so that nothing is written to it. The
copy differs in files that do not compile as published: see :func:`repair`.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from argparse import Namespace
from pathlib import Path

from table import Row
from test_runs import run_tests

TESTS = "test/integration/nkilib"
EXPLAINED: dict[str, str] = {}
"""Beginning of a test's id to why it cannot pass."""


def run(checkout: Path, options: Namespace) -> list[Row]:
    """Every test that the library marks as fast; with ``--all`` those at large shapes as well."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "nki-library"
        for folder in ("src", "test"):
            shutil.copytree(checkout / folder, copy / folder)
        repaired = repair(copy)
        if repaired:
            print("repaired, since they do not compile:", ", ".join(repaired))
        for file in sorted((copy / TESTS).rglob("test_*.py")):
            name = str(file.relative_to(copy))
            if options.only not in name or "fast" not in file.read_text("utf-8"):
                continue
            rows += run_tests(
                copy,
                ["--test-mode=simulation", f"--output-directory={scratch}/out", "-m", "fast", name],
                python=options.python,
                path=(copy / "src", copy / "src/nkilib_src", copy),
                plugins=("nki_library_plugin",),
                seconds=options.seconds,
                total_seconds=10 * options.seconds,
                explained=EXPLAINED,
            )
    return rows


def repair(folder: Path) -> list[str]:
    """Remove text that stands twice behind a docstring; the names of the files that had it."""
    repaired = []
    for file in sorted((folder / "src").rglob("*.py")):
        text = file.read_text("utf-8")
        if _compiles(text):
            continue
        shorter = re.sub(r'(\n    """\n)(?:(?!""").)*?\n    """\n', r"\1", text, flags=re.DOTALL)
        if _compiles(shorter):
            file.write_text(shorter, "utf-8")
            repaired.append(str(file.relative_to(folder)))
    return repaired


def _compiles(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
