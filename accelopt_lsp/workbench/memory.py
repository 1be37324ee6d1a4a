"""Browse, exchange and tidy up the optimization memory and the run store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelopt_lsp.agents.codec import experience_to_json
from accelopt_lsp.agents.database import DatabaseProblem, data_dir
from accelopt_lsp.agents.memory import ImportResult, OptimizationMemory, UnknownExperience
from accelopt_lsp.agents.roles import Experience, Tags
from accelopt_lsp.agents.run_records import UnknownRun
from accelopt_lsp.agents.store import RunStore
from accelopt_lsp.agents.untrusted import MAX_LINE_BYTES

__all__ = [
    "DatabaseProblem",
    "UnknownExperience",
    "UnknownRun",
    "experience_json",
    "experience_markdown",
    "export_memory",
    "fitting_experiences",
    "import_memory",
    "memory_path",
    "open_memory",
    "open_runs",
    "run_spending",
    "runs_path",
]


def memory_path() -> Path:
    """File of the user's optimization memory."""
    return data_dir() / "memory.sqlite3"


def runs_path() -> Path:
    """File of the user's run store."""
    return data_dir() / "runs.sqlite3"


@contextmanager
def open_memory(path: Path | None = None) -> Iterator[OptimizationMemory]:
    """The optimization memory, closed afterwards.

    Raises:
        DatabaseProblem: it cannot be used; the message says what to do.
    """
    memory = OptimizationMemory(path)
    try:
        yield memory
    finally:
        memory.close()


@contextmanager
def open_runs(path: Path | None = None) -> Iterator[RunStore]:
    """The run store, closed afterwards.

    Raises:
        DatabaseProblem: it cannot be used; the message says what to do.
    """
    store = RunStore(path)
    try:
        yield store
    finally:
        store.close()


def experience_json(experience: Experience, *, with_code: bool = False) -> dict[str, Any]:
    """One experience for ``--json``."""
    return {"schema_version": 1, **experience_to_json(experience, with_code=with_code)}


def experience_markdown(experience: Experience) -> str:
    """One experience for people: strategy, evidence, wins and losses, where it comes from."""
    tags = experience.tags
    where = ", ".join(
        part
        for part in (
            f"{tags.bottleneck}-bound" if tags.bottleneck else "",
            tags.dtype or "",
            f"{tags.dialect} dialect" if tags.dialect else "",
            tags.target or "",
            tags.loop_pattern or "",
            tags.shape_class or "",
        )
        if part
    )
    lines = [f"### {plain_markdown(experience.title)}", "", plain_markdown(experience.text), ""]
    if experience.before or experience.after:
        lines += ["Before:", *_fenced(experience.before)]
        lines += ["After:", *_fenced(experience.after), ""]
    factor = f"{experience.ratio:.2f}x"
    lines.append(f"- {'gain' if experience.helpful else 'loss when done'}: {factor} ({where})")
    lines.append(f"- used again: {experience.wins} won, {experience.losses} lost")
    origin = experience.origin
    if experience.reported_wins or experience.reported_losses:
        lines.append(
            f"- elsewhere, as reported: {experience.reported_wins} won, "
            f"{experience.reported_losses} lost"
        )
    lines.append(f"- from: {origin.author}, {origin.figures}, run {origin.run or 'unknown'}")
    if not experience.trusted:
        lines.append("- imported: not trusted until it wins here once")
    if experience.pinned:
        lines.append("- pinned")
    return "\n".join(lines)


_MARKUP = re.compile(r"[\\`*_{}\[\]()<>#+!|~&]|^\s*[-=]", re.MULTILINE)


def plain_markdown(text: str) -> str:
    """Text in markdown as it stands: no links, no pictures, no markup."""
    return _MARKUP.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", text)


def _fenced(code: str) -> list[str]:
    """Code as a block that nothing in it can end."""
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}python", code, fence]


def export_memory(file: Path, *, with_code: bool = False, path: Path | None = None) -> int:
    """Write all experiences as JSON lines; gives how many.

    Raises:
        OSError: the file cannot be written.
    """
    with open_memory(path) as memory, file.open("w", encoding="utf-8") as handle:
        count = 0
        for line in memory.export_lines(with_code=with_code):
            handle.write(line + "\n")
            count += 1
    return count


def import_memory(file: Path, *, path: Path | None = None) -> ImportResult:
    """Take experiences from a file of JSON lines, as untrusted text.

    Raises:
        OSError: the file cannot be read.
    """
    with open_memory(path) as memory, file.open("rb") as handle:
        return memory.import_lines(_bounded_lines(handle))


def _bounded_lines(handle: Any) -> Iterator[str]:
    """Lines of a file, none of which takes more memory than a line may have."""
    while line := handle.readline(MAX_LINE_BYTES + 2):
        while not line.endswith(b"\n") and len(line) > MAX_LINE_BYTES:
            # The rest of a line that is too long is read over, not kept.
            rest = handle.readline(MAX_LINE_BYTES)
            if not rest or rest.endswith(b"\n"):
                break
        yield line.decode("utf-8", "replace")


_HOVER_BUSY_SECONDS = 0.2
_opened: dict[Path, OptimizationMemory] = {}


def fitting_experiences(
    tags: Tags, limit: int, text: str = "", path: Path | None = None
) -> list[Experience]:
    """Experiences that fit a situation, for hovers.

    The memory stays open in this process, waits for others only briefly, and is not repaired:
    whoever next changes it does that, and says so.

    Raises:
        DatabaseProblem: it cannot be used now.
    """
    file = path or memory_path()
    known = _opened.get(file)
    if known is not None and known.stale:
        _opened.pop(file).close()
        known = None
    if known is None:
        known = _opened[file] = OptimizationMemory(file, _HOVER_BUSY_SECONDS, repair=False)
    try:
        return known.retrieve(tags, limit, text)
    except DatabaseProblem:
        _opened.pop(file).close()
        raise


def run_spending(store: RunStore, run: str) -> list[dict[str, Any]]:
    """What each role's model cost, and what it cost for a point of the hardware's peak gained.

    A point is a percent of peak between the run's baseline and its result. The cost of a point is
    None where a price is unknown, the run has no result, or nothing was gained.
    """
    record = store.load(run)
    gained = _points(record.result)
    rows = store.spending(record.id)
    for row in rows:
        cost = row["cost_usd"]
        row["cost_usd_per_point"] = cost / gained if cost is not None and gained else None
    return rows


def _points(result: Mapping[str, Any] | None) -> float | None:
    """Percent points of the peak that a run's result gained; None if none or unknown."""
    profiles = [(result or {}).get(name) or {} for name in ("baseline", "best")]
    before, after = (profile.get("percent_of_peak") for profile in profiles)
    return after - before if before is not None and after is not None and after > before else None
