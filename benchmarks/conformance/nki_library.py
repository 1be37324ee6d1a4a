"""nki-library's own integration tests, which compare its kernels with PyTorch references.

They run in their simulation mode, in a copy of the checkout so that nothing is written to it. The
copy differs in files that do not compile as published: see :func:`repair`.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_runs import run_tests
from rich.console import Console
from rich.table import Table
from table import Row

TESTS = "test/integration/nkilib"
IDS = "integration/nkilib"
"""The same in names of cases, which count from the folder of their pytest.ini."""
ONE_RANK = "needs several ranks; the simulator runs one"
ONE_RANK_TEST = "experimental/transformer/test_transformer_one_rank.py"
"""Where the test with our sizes goes in a copy of the checkout."""
STATIC_8_BIT = (
    "1-128-4096-None-1024-1024-1-0-True-False-True-False-True-True-True-False-False-bfloat16-1-"
)
"""Sizes and options in the name of the case of the attention block that is explained."""
EXPLAINED = {
    f"{IDS}/experimental/transformer/test_transformer_tkg.py": (
        "four ranks and four layers of a 70B model, longer than the limit; the test with our sizes "
        "beside it runs one rank"
    ),
    f"{IDS}/experimental/transformer/test_attention_block_tkg.py::TestRangeAttnBlk"
    f"::test_attn_blk_model[MODEL_WIP_OPTIMAL_1-{STATIC_8_BIT}": (
        "static 8-bit scales: two keys tie, and an output that is clipped throughout is a sign; "
        "with the kernel's queries in the reference it matches (docs/conformance.md)"
    ),
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
}
"""Beginning of a test's id to why it cannot pass."""


def run(checkout: Path, options: Namespace) -> list[Row]:
    """The smallest cases of each test function, for trn3 too where a test is for that only.

    Without ``--only``, the modules that use one of the references in PyTorch are run.
    """
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "nki-library"
        for folder in ("src", "test"):
            shutil.copytree(checkout / folder, copy / folder)
        if (copy / TESTS / ONE_RANK_TEST).parent.is_dir():
            ours = Path(__file__).with_name("nki_library_one_rank.py")
            shutil.copyfile(ours, copy / TESTS / ONE_RANK_TEST)
        repaired = repair(copy)
        if repaired:
            print("repaired, since they do not compile:", ", ".join(repaired))
        names = chosen(copy, options.only)
        try:
            for name in names:
                rows += run_module(copy, name, options, Path(scratch))
        except KeyboardInterrupt:
            print("interrupted; this is what ran until then", file=sys.stderr)
        summarize(copy, rows)
    return rows


def run_module(copy: Path, name: str, options: Namespace, scratch: Path) -> list[Row]:
    """One test module, for each of its targets."""
    start = time.perf_counter()
    rows: list[Row] = []
    for target in targets((copy / name).read_text("utf-8")):
        rows += run_target(copy, name, target, options, scratch)
    passed = sum(r.outcome == "pass" for r in rows)
    seconds = time.perf_counter() - start
    print(f"{name}: {passed} of {len(rows)} in {seconds:.0f} s", file=sys.stderr, flush=True)
    return rows


def run_target(copy: Path, name: str, target: str, options: Namespace, scratch: Path) -> list[Row]:
    """One test module, for one target; an empty one leaves the tests' own."""
    return run_tests(
        copy,
        [
            "--test-mode=simulation",
            f"--output-directory={scratch}/out",
            *([f"--platform-target={target}"] if target else []),
            name,
        ],
        python=options.python,
        path=(copy / "src", copy / "src/nkilib_src", copy),
        plugins=("nki_library_plugin",),
        seconds=options.seconds,
        total_seconds=6 * options.seconds,
        cases=options.cases,
        variables={"NKILIB_SIMULATION_RUN_ALL": "1", "OMP_NUM_THREADS": "1"},
        explained=EXPLAINED,
    )


def targets(text: str) -> list[str]:
    """What a test module is run for."""
    return ["trn2", "trn3"] if "exclude=[Platforms.TRN1, Platforms.TRN2]" in text else [""]


def chosen(copy: Path, only: str) -> list[str]:
    """Test modules whose name contains a text; those that use a reference without one.

    A module uses a reference if it imports it, or a module of the tests that does.
    """
    files = {
        str(file.relative_to(copy)): file.read_text("utf-8")
        for file in sorted((copy / TESTS).rglob("test_*.py"))
    }
    if only:
        return [name for name in files if only in name]
    using = {name: bool(references(text)) for name, text in files.items()}
    for name, text in files.items():
        helpers = re.findall(r"^from test\.integration\.(\S+) import", text, re.MULTILINE)
        paths = [f"test/integration/{h.replace('.', '/')}.py" for h in helpers]
        using[name] = using[name] or any(references(files.get(p, "")) for p in paths)
    using[f"{TESTS}/{ONE_RANK_TEST}"] = f"{TESTS}/{ONE_RANK_TEST}" in files
    return [name for name, uses in using.items() if uses and "def test_" in files[name]]


def matches(row: Row) -> bool:
    """A case that ran a kernel to its end and compared what it gave."""
    return row.outcome == "pass" and bool(row.ran.get("compared") and row.ran.get("launched"))


def summarize(copy: Path, rows: Sequence[Row]) -> None:
    """Print a table a reference file, one a decorated kernel, and the totals."""
    cases: dict[str, list[str]] = {name: [] for name in reference_files(copy)}
    decorated: dict[str, list[str]] = {}
    launched: dict[str, list[str]] = {}
    for row in filter(matches, rows):
        forms = [text.rsplit(" ", 2) for text in row.ran["launched"]]
        runs = ", ".join(sorted({f"{target} x{cores}" for _, target, cores in forms}))
        for name in row.ran["references"]:
            cases.setdefault(name, []).append(runs)
        for name in row.ran["kernels"]:
            decorated.setdefault(name, []).append(runs)
        for name, _, _ in forms:
            launched.setdefault(name, []).append(runs)
    plain = {k: v for k, v in launched.items() if k not in decorated}
    _print("reference files", cases)
    _print("kernels with a decorator that ran in a case that matches", decorated)
    _print("launched without: functions of the library, and of tests around them", plain)
    matched = sum(bool(found) for found in cases.values())
    print(f"reference files with a match: {matched} of {len(cases)}")
    print(f"kernels matched: {len(decorated)} with a decorator, {len(plain)} without")


def _print(title: str, cases: Mapping[str, Sequence[str]]) -> None:
    table = Table(title, "cases", "as (target x cores)")
    for name, runs in sorted(cases.items()):
        table.add_row(name, str(len(runs)), ", ".join(sorted(set(runs))) or "-")
    Console(width=120).print(table)


def reference_files(copy: Path) -> list[str]:
    """The library's files of references, as module names below its package."""
    root = copy / "src/nkilib_src/nkilib"
    return [
        ".".join(file.relative_to(root).with_suffix("").parts)
        for file in sorted(root.rglob("*_torch.py"))
    ]


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
