"""nki-library's own integration tests, which compare its kernels with PyTorch references."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from report import Report, count, run_pytest

HERE = Path(__file__).parent


def run(checkout: Path, only: tuple[str, ...], seconds: float) -> Report:
    """One row a test module, and how many kernels and reference files that covers."""
    root = checkout / "test" / "integration" / "nkilib"
    source = checkout / "src"
    report = Report("nki-library: integration tests in simulation mode")
    environment = {
        "PYTHONPATH": os.pathsep.join(map(str, (HERE, source, source / "nkilib_src", checkout)))
    }
    kernels: set[str] = set()
    references: set[str] = set()
    for file in sorted(root.rglob("test_*.py")):
        name = str(file.relative_to(root))
        if only and not any(part in name for part in only):
            continue
        arguments = [
            *("-p", "nki_library_plugin", "--test-mode=simulation", "--tb=line"),
            str(file.relative_to(checkout)),
        ]
        _, cases = run_pytest(name, arguments, checkout, seconds, environment)
        row = count(name, cases) if cases else _
        report.rows.append(row)
        if row.passed:
            used, known = imports(file)
            kernels |= used
            references |= known
    report.remarks.append(
        f"modules with a passing test name {len(kernels)} kernels and "
        f"{len(references)} reference files"
    )
    return report


def imports(file: Path) -> tuple[set[str], set[str]]:
    """Kernels that a test module hands to its framework, and reference files it imports."""
    kernels: set[str] = set()
    references: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.keyword) and node.arg in ("kernel_entry", "kernel_func"):
            kernels.add(ast.unparse(node.value))
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("_torch"):
            references.add(str(node.module))
    return kernels, references
