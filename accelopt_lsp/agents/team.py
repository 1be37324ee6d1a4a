"""A layer of experiences that a team keeps in its repository, beside the user's own memory.

It is the file that ``accelopt memory export`` writes. It is only read: what a user's runs draw
on from it is taken over into the user's memory, where it is untrusted until it wins once.
"""

from __future__ import annotations

from pathlib import Path

from accelopt_lsp.agents.codec import CodecError
from accelopt_lsp.agents.roles import Experience
from accelopt_lsp.agents.untrusted import parse_untrusted

MAX_BYTES = 32 << 20
MAX_NAMED = 3
"""Bad lines that a note names; a file of another kind has nothing but bad lines."""


def read_team(path: Path) -> tuple[tuple[Experience, ...], tuple[str, ...]]:
    """Experiences of a team's file, and notes on what could not be read. Never raises."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return (), (f"the team's memory {path} is larger than {MAX_BYTES >> 20} MiB",)
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        return (), (f"the team's memory {path} cannot be read: {error}",)
    found: dict[str, Experience] = {}
    bad: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            experience = parse_untrusted(line)
        except CodecError as error:
            bad.append(f"line {number}: {error}")
        else:
            found.setdefault(experience.id, experience)
    if not bad:
        return tuple(found.values()), ()
    more = f" and {len(bad) - MAX_NAMED} more" if len(bad) > MAX_NAMED else ""
    note = f"in the team's memory {path}, {'; '.join(bad[:MAX_NAMED])}{more} cannot be used"
    return tuple(found.values()), (note,)
