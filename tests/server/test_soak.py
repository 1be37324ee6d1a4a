"""A short version of the soak; the long one is run by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).parents[2] / "benchmarks" / "server_soak.py"


def test_two_hundred_operations():
    done = subprocess.run(
        [sys.executable, SOAK, "--operations", "200", "--files", "10", "--seed", "7"],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "200 operations on 10 files" in done.stdout
    assert "0 left at the end" in done.stdout
