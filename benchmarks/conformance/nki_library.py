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

from pytest_runs import run_tests
from table import Row

TESTS = "test/integration/nkilib"
IDS = "integration/nkilib"
"""The same in names of cases, which count from the folder of their pytest.ini."""
ONE_RANK = "needs several ranks; the simulator runs one"
EXPLAINED = {
    f"{IDS}/experimental/collectives/": ONE_RANK,
    **{
        f"{IDS}/core/attention/test_gen_mask_tkg.py::TestGenMaskTkg::test_{kind}": (
            "the test asks for a key that it gives another name"
        )
        for kind in ("flat_kv", "block_kv", "swa")
    },
    f"{IDS}/core/utils/test_tensor_view.py": (
        "imports nki.compiler.frontend, internals of the compiler that are not documented"
    ),
    f"{IDS}/core/mlp/test_mlp_proj_mxfp4.py::TestMlpProjMxfp4Kernel::test_mxfp4_gate_up": (
        "the test copies padding rows that nothing was written to into its output, then "
        "overwrites them there"
    ),
}
"""Beginning of a test's id to why it cannot pass."""


def run(checkout: Path, options: Namespace) -> list[Row]:
    """The smallest cases of each test function, for trn3 where the test is for that only."""
    rows: list[Row] = []
    covered: set[str] = set()
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "nki-library"
        for folder in ("src", "test"):
            shutil.copytree(checkout / folder, copy / folder)
        repaired = repair(copy)
        if repaired:
            print("repaired, since they do not compile:", ", ".join(repaired))
        for file in sorted((copy / TESTS).rglob("test_*.py")):
            name = str(file.relative_to(copy))
            if options.only not in name:
                continue
            text = file.read_text("utf-8")
            targets = (
                ["trn2", "trn3"] if "exclude=[Platforms.TRN1, Platforms.TRN2]" in text else [""]
            )
            found: list[Row] = []
            for target in targets:
                platform = [f"--platform-target={target}"] if target else []
                found += run_tests(
                    copy,
                    [
                        "--test-mode=simulation",
                        f"--output-directory={scratch}/out",
                        *platform,
                        name,
                    ],
                    python=options.python,
                    path=(copy / "src", copy / "src/nkilib_src", copy),
                    plugins=("nki_library_plugin",),
                    seconds=options.seconds,
                    total_seconds=10 * options.seconds,
                    cases=options.cases,
                    variables={"NKILIB_SIMULATION_RUN_ALL": "1"},
                    explained=EXPLAINED,
                )
            if any(r.outcome == "pass" for r in found):
                covered |= references(text)
            rows += found
    print(f"reference files of modules in which a case passes: {len(covered)}")
    print(", ".join(sorted(covered)))
    return rows


def references(text: str) -> set[str]:
    """Modules ending in ``_torch`` that a test module imports."""
    return {
        str(node.module).rpartition("nkilib.")[2]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("_torch")
    }


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
