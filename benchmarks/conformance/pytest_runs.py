"""Runs a checkout's own pytest tests with ``accelopt run`` and collects what came of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from table import Row

HERE = Path(__file__).parent
OUTCOMES = {"passed": "pass", "failed": "fail", "skipped": "skip"}


def run_tests(
    folder: Path,
    arguments: Sequence[str],
    *,
    python: str = sys.executable,
    path: Sequence[Path] = (),
    plugins: Sequence[str] = (),
    seconds: int = 120,
    total_seconds: int = 3600,
    cases: int = 0,
    variables: Mapping[str, str] | None = None,
    explained: Mapping[str, str] | None = None,
) -> list[Row]:
    """Run pytest in ``folder`` on our stand-ins, unmodified; one row a test.

    Args:
        arguments: what to run, as for pytest.
        python: interpreter with ``accelopt_lsp`` and what the tests import besides NKI.
        path: folders that the tests import from.
        plugins: pytest plugins of this folder to load.
        seconds: limit for one test, on the processor.
        total_seconds: limit for all of them, on the clock.
        cases: run so many cases of a test function, those with the smallest shapes; 0 for all.
        variables: further environment variables.
        explained: beginning of a test's id to the reason why it cannot pass.
    """
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "report.jsonl"
        command = [python, "-m", "accelopt_lsp", "run", "-m", "pytest", "-q", "-p", "report_plugin"]
        for plugin in plugins:
            command += ["-p", plugin]
        command += ["-p", "no:cacheprovider", "--tb=no", "--continue-on-collection-errors"]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(str(p) for p in (HERE.parents[1], HERE, *path)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CONFORMANCE_REPORT": str(file),
            "CONFORMANCE_SECONDS": str(seconds),
            "CONFORMANCE_CASES": str(cases),
            **(variables or {}),
        }
        try:
            subprocess.run(
                [*command, *arguments],
                cwd=folder,
                env=environment,
                timeout=total_seconds,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"stopped after {total_seconds} s: {' '.join(arguments)}", file=sys.stderr)
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return [row(json.loads(line), explained or {}) for line in lines]


def row(line: dict[str, Any], explained: Mapping[str, str]) -> Row:
    """A table row from one line of the plugin's report."""
    identity = str(line["id"])
    file, _, name = identity.partition("::")
    outcome, why = OUTCOMES[str(line["outcome"])], str(line["why"])
    reason = next((text for start, text in explained.items() if identity.startswith(start)), None)
    if outcome == "fail" and reason is not None:
        outcome, why = "explained", f"{reason} [{why}]"
    return Row(file, name or file, outcome, why, float(line["seconds"]), line.get("ran", {}))
