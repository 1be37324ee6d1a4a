"""Tables of what came of running others' kernels: printed with rich, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, field, frozen
from rich.console import Console
from rich.table import Table

STYLES = {"pass": "green", "fail": "red", "explained": "yellow", "skip": "dim"}


@frozen
class Row:
    """One kernel or test.

    Attributes:
        group: file in the checkout, or what else the case belongs to.
        case: name of the test or kernel, with its shapes where it is run at several.
        outcome: ``pass``, ``fail``, ``explained`` (fails for a reason that the suite names) or
            ``skip`` (the suite's own tests say so).
        why: the exception, the error against the reference, or the explanation.
        seconds: wall time of the case; None if it did not run.
        ran: what the case ran, where the suite records it.
    """

    group: str
    case: str
    outcome: str
    why: str = ""
    seconds: float | None = None
    ran: Mapping[str, Any] = field(factory=dict)


def report(title: str, rows: Sequence[Row], out: Path | None, verbose: bool) -> int:
    """Print a suite's table and write its JSON; the exit code of the command.

    Args:
        out: file for the JSON, or None.
        verbose: print passing cases one by one, not only their number for each group.
    """
    console = Console()
    table = Table("group", "case", "outcome", "why", title=title)
    for group in dict.fromkeys(r.group for r in rows):
        members = [r for r in rows if r.group == group]
        passed = [r for r in members if r.outcome == "pass"]
        if passed and not verbose:
            table.add_row(group, f"{len(passed)} cases", "[green]pass[/]", "")
        for row in members:
            if row.outcome == "skip" and not verbose:
                continue
            if row.outcome != "pass" or verbose:
                style = STYLES[row.outcome]
                table.add_row(group, row.case, f"[{style}]{row.outcome}[/]", row.why[:300])
    console.print(table)
    counts = Counter(r.outcome for r in rows)
    groups = {r.group for r in rows if r.outcome == "pass"}
    console.print(
        f"{counts['pass']} of {len(rows) - counts['skip']} pass in {len(groups)} groups; "
        f"{counts['fail']} fail, {counts['explained']} explained, {counts['skip']} skipped"
    )
    if out is not None:
        content = {
            "schema_version": 1,
            "suite": title,
            "counts": dict(counts),
            "rows": [asdict(r) for r in rows],
        }
        out.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    return 1 if counts["fail"] else 0
