"""``accelopt runs``: what was tried, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from accelopt_lsp.cli_memory import JSON_OPTION, clear_errors, day_and_time, printable
from accelopt_lsp.cli_options import fail, print_json

if TYPE_CHECKING:
    from accelopt_lsp.agents.run_records import RunRecord

_OF_NOTE = ("verified", "traced")


@click.group()
def runs() -> None:
    """Optimization runs: what was tried, and what came of it."""


@runs.command()
def path() -> None:
    """Print the file that holds the runs."""
    from accelopt_lsp.workbench.memory import runs_path

    click.echo(runs_path())


@runs.command(name="list")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@JSON_OPTION
def list_runs(limit: int, as_json: bool) -> None:
    """List the latest runs."""
    from accelopt_lsp.cli_output import console, milliseconds
    from accelopt_lsp.workbench.memory import open_runs

    with clear_errors(), open_runs() as store:
        rows = [record.summary() for record in store.runs(limit)]
        count, size = len(store), store.size_bytes
    if as_json:
        print_json({"schema_version": 1, "runs": rows, "count": count, "size_bytes": size})
        return
    if not rows:
        click.echo("no runs yet")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("run", "started", "status", "kernel", "target"):
        table.add_column(heading, no_wrap=heading == "run")
    for heading in ("before", "after", "speed-up", "tried"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row["run"],
            day_and_time(row["created"]),
            row["status"],
            printable(f"{Path(row['path']).name}::{row['function']}"),
            row["target"],
            milliseconds(row["baseline_ms"]),
            milliseconds(row["best_ms"]),
            "" if row["speedup"] is None else f"{row['speedup']:.2f}x",
            str(row["evaluations"]),
        )
    console().print(table)
    shown = f"{len(rows)} of {count} runs" if count > len(rows) else f"{count} run(s)"
    click.echo(f"{shown}, {size / 1e6:.1f} MB; accelopt runs show RUN tells more", err=True)


@runs.command(short_help="Show a run: its candidates, costs and result.")
@click.argument("run")
@click.option("--no-diff", is_flag=True, help="Leave out the change to the kernel.")
@JSON_OPTION
def show(run: str, no_diff: bool, as_json: bool) -> None:
    """Show one run: its candidates as a tree, what became of each, costs, result.

    Marks: * in the last beam, + verified, = traced only, - wrong, failed or refused.
    """
    from accelopt_lsp.cli_output import console, show_diff
    from accelopt_lsp.workbench.memory import open_runs, run_spending

    with clear_errors(), open_runs() as store:
        record = store.load(run)
        spending = run_spending(store, record.id)
        attempts = store.attempts(record.id)
        beam = store.last_beam(record.id)
        lessons = store.lessons(record.id)
    if as_json:
        if no_diff and record.result:
            record.result.pop("diff", None)  # type: ignore[attr-defined]
        shown: dict[str, Any] = {
            **record.summary(),
            "settings": dict(record.settings),
            "roles": dict(record.roles),
            "attempts": attempts,
            "beam": beam,
            "experiences": lessons,
            "spending": spending,
            "result": record.result,
        }
        print_json({"schema_version": 1, **shown})
        return
    out = console()
    out.print(_headline(record))
    for note in (record.result or {}).get("notes", ()):
        out.print(Text(f"note: {printable(note)}"))
    out.print()
    out.print(_tree(record, attempts, beam))
    if lessons:
        out.print()
        out.print(_lessons(lessons))
    if spending:
        out.print()
        out.print(_spending(spending))
    diff = (record.result or {}).get("diff")
    if diff and not no_diff:
        out.print()
        show_diff(out, printable(diff))


def _headline(record: RunRecord) -> Text:
    from accelopt_lsp.cli_output import milliseconds

    facts = record.summary()
    text = Text(f"{record.id}  {record.status}, begun {day_and_time(record.created)}\n")
    text.append(printable(f"{record.path}::{record.function} on {record.target}\n"))
    if facts["best_ms"] is not None:
        text.append(f"{milliseconds(facts['baseline_ms'])} to {milliseconds(facts['best_ms'])}")
        text.append(f", {facts['speedup']:.3f} times as fast" if facts["speedup"] else "")
        text.append("; ")
    text.append(f"{record.evaluations} evaluations")
    stopped = (record.result or {}).get("stopped")
    text.append(f"; {printable(stopped)}" if stopped else "")
    roles = sorted(set(record.roles.values()))
    text.append(f"\nroles: {printable(', '.join(roles))}; accelopt-lsp {record.version}")
    if record.status in ("interrupted", "cancelled"):
        text.append(f"\ngo on with: accelopt optimize {record.path} --resume {record.id}")
    return text


def _tree(record: RunRecord, attempts: list[dict[str, Any]], beam: list[str]) -> Tree:
    """Candidates under those that they were made from; what led nowhere in one line each."""
    from accelopt_lsp.cli_output import milliseconds

    top = Tree(Text(f"baseline  {milliseconds(record.baseline_ms)}"), guide_style="dim")
    places = {"baseline": top}
    for attempt in attempts:
        under = places.get(attempt["parent"], top)
        mark = "*" if attempt["id"] in beam else _mark(attempt["verdict"])
        text = Text(f"{mark} {attempt['id']}  ")
        if attempt["latency_ms"] is not None:
            text.append(f"{milliseconds(attempt['latency_ms'])}  ", style="bold")
        text.append(printable(attempt["title"]))
        if attempt["verdict"] not in _OF_NOTE:
            text.append(f"  {attempt['verdict']}", style="dim")
            error = " ".join((attempt["error"] or "").split())
            text.append(f": {printable(error[:120])}" if error else "", style="dim")
        places[attempt["id"]] = under.add(text)
    return top


def _mark(verdict: str) -> str:
    return {"verified": "+", "traced": "=", "duplicate": "=", "drafted": "="}.get(verdict, "-")


def _lessons(lessons: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, title="learned", title_justify="left")
    for heading in ("id", "gain", "strategy"):
        table.add_column(heading)
    for lesson in lessons:
        table.add_row(lesson["id"], f"{lesson['ratio']:.2f}x", Text(printable(lesson["title"])))
    return table


def _spending(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, title="spent", title_justify="left")
    table.add_column("role")
    table.add_column("model")
    for heading in ("requests", "tokens", "USD", "USD for a point of peak"):
        table.add_column(heading, justify="right")
    for row in rows:
        uncounted = "" if row["tokens"] is not None else " and some uncounted"
        table.add_row(
            row["role"],
            Text(printable(row["model"])),
            str(row["requests"]),
            f"{row['counted_tokens']}{uncounted}",
            *(_dollars(row[name]) for name in ("cost_usd", "cost_usd_per_point")),
        )
    return table


def _dollars(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


@runs.command(name="export")
@click.argument("run")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object in place of lines.")
def export_run(run: str, file: Path | None, as_json: bool) -> None:
    """Write everything a run did as JSON lines, to FILE or stdout.

    The first line is the run, every other one a plan, an attempt, an evaluation, a place in a
    beam, an experience or an exchange with a model, as its "kind" says. No key is in it.
    """
    import json

    from accelopt_lsp.workbench.memory import open_runs

    with clear_errors(), open_runs() as store:
        data = store.export(run)
        if as_json:
            text = json.dumps(data, indent=2) + "\n"
        else:
            text = "".join(json.dumps(line) + "\n" for line in export_lines(data))
        if file is not None:
            file.write_text(text, "utf-8")
    if file is None:
        click.echo(text, nl=False)
    else:
        click.echo(f"wrote {file}", err=True)


def export_lines(data: dict[str, Any]) -> list[dict[str, Any]]:
    """An exported run in lines, each with its kind."""
    tables = {
        "plan": "plans",
        "attempt": "attempts",
        "evaluation": "evaluations",
        "beam": "beams",
        "experience": "experiences",
        "exchange": "exchanges",
    }
    run = {name: value for name, value in data.items() if name not in tables.values()}
    lines = [{"kind": "run", **run}]
    for kind, table in tables.items():
        lines += [{"kind": kind, **row} for row in data[table]]
    return lines


@runs.command()
@click.argument("run")
def forget(run: str) -> None:
    """Remove one run with all its records."""
    from accelopt_lsp.workbench.memory import open_runs

    with clear_errors(), open_runs() as store:
        record = store.load(run)
        if record.at_work_elsewhere:
            fail(f"run {record.id} is still going on; cancel it first")
        store.delete(record.id)
    click.echo(f"forgot {record.id}")


@runs.command(short_help="Remove all but the latest runs.")
@click.option("--keep", type=click.IntRange(0), default=200, show_default=True)
def prune(keep: int) -> None:
    """Remove all but the latest runs, and give their room back to the disk.

    What they taught stays in the optimization memory.
    """
    from accelopt_lsp.workbench.memory import open_runs

    with clear_errors(), open_runs() as store:
        before = store.size_bytes
        removed = store.prune(keep)
        freed = before - store.size_bytes
    click.echo(f"removed {removed} run(s), freed {max(0, freed) / 1e6:.1f} MB")
