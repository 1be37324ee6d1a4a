"""Render the real output of commands as pictures for the README.

Usage: ``python docs/build_images.py``. Each picture runs its command in a pseudo terminal, in a
scratch copy of the examples, and shows what it printed.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
IMAGES = Path(__file__).with_name("images")
WIDTH = 120
PICTURES: dict[str, tuple[list[str], int]] = {
    "optimize": (["optimize", "examples/legacy/matmul.py"], 60),
    "check": (["check", "project.py"], 40),
    "profile": (["profile", "examples/legacy/rmsnorm.py"], 40),
}
THEME = TerminalTheme(
    (16, 24, 36),
    (214, 222, 235),
    [(1, 22, 39), (239, 83, 80), (34, 218, 110), (250, 204, 21),
     (130, 170, 255), (199, 146, 234), (33, 199, 168), (214, 222, 235)],
    [(87, 101, 115), (255, 110, 110), (72, 235, 140), (255, 225, 110),
     (150, 190, 255), (215, 170, 245), (127, 219, 202), (255, 255, 255)],
)  # fmt: skip


def output_of(arguments: list[str], folder: Path) -> str:
    """What ``accelopt ARGUMENTS`` prints on a terminal, progress lines left out."""
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLUMNS": str(WIDTH),
        "LINES": "50",
        "ACCELOPT_DATA_DIR": str(folder / "data"),
    }
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "accelopt_lsp", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=environment,
    )
    os.close(follower)
    chunks = []
    while True:
        ready, _, _ = select.select([leader], [], [], 0.2)
        if ready:
            try:
                chunk = os.read(leader, 65536)
            except OSError:
                break
            if not chunk:
                break
            chunks.append(chunk)
        elif process.poll() is not None:
            break
    process.wait()
    os.close(leader)
    return b"".join(chunks).decode("utf-8", "replace").replace("\r\n", "\n")


def render(name: str, arguments: list[str], lines: int, folder: Path) -> None:
    """Write ``docs/images/NAME.svg``."""
    text = output_of(arguments, folder)
    shown = text.rstrip("\n").split("\n")
    if len(shown) > lines:
        shown = [*shown[:lines], "..."]
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    console.print(Text.assemble(("$ ", "bold green"), ("accelopt " + " ".join(arguments), "bold")))
    console.print(Text.from_ansi("\n".join(shown)))
    title = f"accelopt {arguments[0]}"
    svg = console.export_svg(title=title, theme=THEME, unique_id=f"accelopt-{name}")
    # A picture fetches nothing from elsewhere: the viewer's own monospaced font will do.
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code,", "ui-monospace, Menlo, Consolas,")
    (IMAGES / f"{name}.svg").write_text(
        "\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8"
    )


def main() -> None:
    chosen = sys.argv[1:] or list(PICTURES)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copytree(ROOT / "examples", folder / "examples")
        shutil.copy(IMAGES / "broken.py", folder / "project.py")
        for name in chosen:
            arguments, lines = PICTURES[name]
            render(name, arguments, lines, folder)


if __name__ == "__main__":
    main()
