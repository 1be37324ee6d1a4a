"""Drives Emacs in a terminal, with eglot and with lsp-mode, by the settings of docs/editors.md.

    drive.py FOLDER    keeps its state in FOLDER; installs Emacs by apt-get unless it is there

Exits with 0 when all went well, with 77 when Emacs cannot be installed here (the reason is in
FOLDER/skipped), and with 1 when something is not as it must be. ``EMACS_BINARY`` names another
Emacs, which must have both clients.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))

from tests.e2e import editor  # noqa: E402

#: Each client, with a word of the settings that are for it.
CLIENTS = {"eglot": "eglot-server-programs", "lsp-mode": "lsp-register-client"}
PACKAGES = ("emacs-nox", "elpa-eglot", "elpa-lsp-mode")
HAS_CLIENTS = (
    "(progn (package-activate-all)"
    ' (unless (and (locate-library "eglot") (locate-library "lsp-mode")) (kill-emacs 1)))'
)


def emacs(home: Path) -> str:
    """An Emacs that has both clients."""
    named = os.environ.get("EMACS_BINARY", "emacs")
    if not _has_clients(named):
        if shutil.which("apt-get") is None:
            raise editor.cannot_run(home, "Emacs", f"no Emacs with {', '.join(CLIENTS)}")
        root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["install", "-y", "-q", "--no-install-recommends", *PACKAGES]
        for arguments in (["update", "-q"], install):
            done = subprocess.run(
                [*root, "apt-get", *arguments],
                capture_output=True,
                text=True,
                env=environment,
                check=False,
            )
        if not _has_clients(named):
            reason = f"apt-get cannot install {' '.join(PACKAGES)}: {done.stderr[-300:]}"
            raise editor.cannot_run(home, "Emacs", reason)
    return named


def _has_clients(binary: str) -> bool:
    if shutil.which(binary) is None:
        return False
    command = [binary, "--batch", "-q", "--eval", HAS_CLIENTS]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test(home: Path, binary: str, client: str, word: str) -> int:
    """Runs the test with one client; says what came true only where something did not."""
    state = editor.fresh_state(home, client)
    settings, report = state / "settings.el", state / "report"
    settings.write_text(editor.snippet("Emacs", "elisp", word))
    variables = {"CLIENT": client, "INIT": str(settings), "REPORT": str(report)}
    # Emacs is given a terminal: in batch mode it shows no diagnostics.
    inside = f"exec {binary} -nw -q -l {HERE / 'drive.el'}"
    with (state / "screen").open("w") as screen:
        command = ["script", "-q", "-e", "-c", inside, "/dev/null"]
        code = editor.run(state, command, screen, HOME=str(state), TERM="xterm", **variables)
    if code != 0:
        print(report.read_text() if report.exists() else "Emacs said nothing", file=sys.stderr)
    return code


def main(home: Path) -> int:
    home.mkdir(parents=True, exist_ok=True)
    (home / "skipped").unlink(missing_ok=True)
    binary = emacs(home)
    for client, word in CLIENTS.items():
        begun = time.monotonic()
        if test(home, binary, client, word) != 0:
            print(f"Emacs test failed with {client}", file=sys.stderr)
            return 1
        print(f"Emacs test passed with {client} in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
