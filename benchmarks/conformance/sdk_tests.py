"""AWS's unit tests of NKI (``nki/test``, legacy dialect), through ``accelopt run -m pytest``."""

from __future__ import annotations

from pathlib import Path

from report import Report, run_pytest


def run(checkout: Path, only: tuple[str, ...], seconds: float) -> Report:
    """One row a file."""
    folder = checkout / "nki" / "test"
    if not folder.is_dir():
        folder = checkout / "general" / "nki" / "test"
    report = Report(f"NKI unit tests in {folder.relative_to(checkout)}")
    for file in sorted(folder.glob("test_*.py")):
        if only and not any(part in file.name for part in only):
            continue
        row, _ = run_pytest(file.name, [file.name], folder, seconds)
        report.rows.append(row)
    return report
