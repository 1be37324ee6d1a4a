"""What the tests of editors in a terminal share.

Each takes the settings that docs/editors.md gives, runs the editor in a folder of its own with
the kernels of these tests, and sees to it that no process is left when the editor has gone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

HERE = Path(__file__).parent
SECONDS = 420
CANNOT_RUN = 77


def snippet(heading: str, language: str, containing: str = "") -> str:
    """The settings that the documentation gives under a heading."""
    text = (HERE.parents[1] / "docs/editors.md").read_text("utf-8")
    for section in re.findall(rf"^## {heading}.*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE):
        for block in re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL):
            if containing in block:
                return block
    raise AssertionError(f"docs/editors.md has no {language} with {containing!r} for {heading}")


def cannot_run(home: Path, editor: str, reason: str) -> SystemExit:
    """Says why the test of an editor cannot run here; the reason is also in ``home/skipped``."""
    (home / "skipped").write_text(f"{editor}: {reason}\n")
    print(f"The {editor} test cannot run here: {reason}", file=sys.stderr)
    return SystemExit(CANNOT_RUN)


def fresh_state(home: Path, name: str) -> Path:
    """An empty folder for an editor's state, with a project of kernels in ``work``."""
    state = home / f"{name}-state"
    shutil.rmtree(state, ignore_errors=True)
    work = state / "work"
    work.mkdir(parents=True)
    for kernel in (HERE / "kernels").glob("*.py"):
        shutil.copy(kernel, work)
    (work / "pyproject.toml").write_text("")
    return state


def run(
    state: Path, command: list[str | Path], output: IO[str] | None = None, **variables: str
) -> int:
    """The editor's exit code, or 1 if it left processes behind or took too long."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "ACCELOPT_DATA_DIR": str(state / "data"),
        **{f"XDG_{name}_HOME": str(state / "xdg") for name in ("CONFIG", "DATA", "STATE", "CACHE")},
        **variables,
    }
    try:
        code = subprocess.run(
            command,
            cwd=state / "work",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            timeout=SECONDS,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        print(f"The editor did not end within {SECONDS} s", file=sys.stderr)
        return 1
    end = time.monotonic() + 5
    while (processes := _left(str(state / "data"))) and time.monotonic() < end:
        time.sleep(0.1)
    if processes:
        print(f"The editor has gone, these have not: {processes}", file=sys.stderr)
        return 1
    return code


def _left(mark: str) -> list[str]:
    """Processes whose environment names our state."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes() and entry.name != str(os.getpid()):
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found
