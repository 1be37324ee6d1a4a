"""Tables of the conformance runs, and pytest runs that fill them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field
from rich.console import Console
from rich.table import Table
from rich.text import Text


@define
class Row:
    """One file, folder or kernel.

    Attributes:
        passed, failed, skipped: counts of tests.
        reasons: first words of failures, the most frequent first.
    """

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: tuple[str, ...] = ()


@define
class Report:
    """What a suite gave.

    Attributes:
        remarks: lines under the table.
    """

    title: str
    rows: list[Row] = field(factory=list)
    remarks: list[str] = field(factory=list)

    @property
    def fine(self) -> bool:
        return all(row.failed == 0 for row in self.rows)

    def show(self, out: Console) -> None:
        table = Table(title=self.title, title_justify="left", box=None, pad_edge=False)
        for heading in ("name", "passed", "failed", "skipped"):
            table.add_column(heading, justify="left" if heading == "name" else "right")
        table.add_column("why", ratio=1, overflow="fold")
        for row in self.rows:
            table.add_row(
                Text(row.name),
                str(row.passed),
                str(row.failed),
                str(row.skipped),
                Text("\n".join(row.reasons[:3])),
            )
        out.print(table)
        passed, failed = sum(r.passed for r in self.rows), sum(r.failed for r in self.rows)
        out.print(f"{passed} passed, {failed} failed, in {len(self.rows)} rows")
        for remark in self.remarks:
            out.print(remark)

    def to_json(self) -> dict[str, Any]:
        rows = [
            {
                "name": r.name,
                "passed": r.passed,
                "failed": r.failed,
                "skipped": r.skipped,
                "reasons": list(r.reasons),
            }
            for r in self.rows
        ]
        return {"title": self.title, "rows": rows, "remarks": self.remarks}


def run_pytest(
    name: str,
    arguments: Sequence[str],
    folder: Path,
    seconds: float,
    environment: Mapping[str, str] | None = None,
) -> tuple[Row, list[ElementTree.Element]]:
    """Run pytest on the simulator; gives a row and the test cases."""
    with tempfile.TemporaryDirectory() as scratch:
        results = Path(scratch) / "results.xml"
        command = [
            *(sys.executable, "-m", "accelopt_lsp", "run", "-m", "pytest", "-q"),
            *("-p", "no:cacheprovider", f"--junitxml={results}", *arguments),
        ]
        try:
            done = subprocess.run(
                command,
                check=False,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=seconds,
                env={**os.environ, **(environment or {})},
            )
        except subprocess.TimeoutExpired:
            return Row(name, failed=1, reasons=(f"not done within {seconds:g} s",)), []
        if not results.is_file():
            last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no result"]
            return Row(name, failed=1, reasons=(last[0][:160],)), []
        cases = list(ElementTree.parse(results).iter("testcase"))
    return count(name, cases), cases


def count(name: str, cases: Iterable[ElementTree.Element]) -> Row:
    """A row for test cases of a JUnit file."""
    row = Row(name)
    why: Counter[str] = Counter()
    for case in cases:
        trouble = case.find("failure")
        if trouble is None:
            trouble = case.find("error")
        if trouble is not None:
            row.failed += 1
            why[(trouble.get("message") or "").splitlines()[0][:160]] += 1
        elif case.find("skipped") is not None:
            row.skipped += 1
        else:
            row.passed += 1
    row.reasons = tuple(f"{n} x {text}" for text, n in why.most_common())
    return row
