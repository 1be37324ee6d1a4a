"""``accelopt memory`` and ``accelopt runs``: what was learned, and what was tried."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from accelopt_lsp.cli_options import fail, print_json

if TYPE_CHECKING:
    from accelopt_lsp.agents.roles import Experience

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Problems of the databases and of files become usage errors."""
    from accelopt_lsp.workbench.memory import DatabaseProblem, UnknownExperience, UnknownRun

    try:
        yield
    except (DatabaseProblem, UnknownExperience, UnknownRun) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")


@click.group()
def memory() -> None:
    """What the optimizer has learned: strategies with their wins and losses."""


@memory.command()
def path() -> None:
    """Print the file that holds the memory."""
    from accelopt_lsp.workbench.memory import memory_path

    click.echo(memory_path())


@memory.command(name="list")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
@_JSON
def list_experiences(limit: int, as_json: bool) -> None:
    """List the latest experiences."""
    from accelopt_lsp.workbench.memory import open_memory

    with _clear_errors(), open_memory() as opened:
        _show_experiences(opened.list(limit), as_json, "the memory is empty")


@memory.command()
@click.argument("text")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@_JSON
def search(text: str, limit: int, as_json: bool) -> None:
    """Find experiences by words."""
    from accelopt_lsp.workbench.memory import open_memory

    with _clear_errors(), open_memory() as opened:
        _show_experiences(opened.search(text, limit), as_json, f"nothing about {text!r}")


def _show_experiences(found: Sequence[Experience], as_json: bool, empty: str) -> None:
    from accelopt_lsp.cli_output import console
    from accelopt_lsp.workbench.memory import experience_json

    if as_json:
        print_json({"schema_version": 1, "experiences": [experience_json(e) for e in found]})
        return
    if not found:
        click.echo(empty)
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("id", "gain", "won", "lost", "bound", "target", "strategy"):
        table.add_column(heading)
    for item in found:
        table.add_row(
            item.id,
            f"{item.ratio:.2f}x",
            str(item.wins),
            str(item.losses),
            item.tags.bottleneck or "",
            item.tags.target or "",
            Text(item.title),
        )
    console().print(table)


@memory.command()
@click.argument("experience")
@click.option("--code", is_flag=True, help="With the kernels it was learned from (--json only).")
@_JSON
def show(experience: str, code: bool, as_json: bool) -> None:
    """Show one experience with its evidence."""
    from accelopt_lsp.workbench.memory import experience_json, experience_markdown, open_memory

    with _clear_errors(), open_memory() as opened:
        found = opened.get(experience)
    if as_json:
        print_json(experience_json(found, with_code=code))
    else:
        click.echo(experience_markdown(found))


@memory.command(name="export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--code", is_flag=True, help="With the kernels themselves, not only pseudocode.")
def export_experiences(file: Path, code: bool) -> None:
    """Write all experiences to FILE as JSON lines."""
    from accelopt_lsp.workbench.memory import export_memory

    with _clear_errors():
        count = export_memory(file, with_code=code)
    click.echo(f"wrote {count} experiences to {file}")


@memory.command(name="import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def import_experiences(file: Path) -> None:
    """Take experiences from FILE; they are not trusted until they win here."""
    from accelopt_lsp.workbench.memory import import_memory

    with _clear_errors():
        result = import_memory(file)
    click.echo(f"{result.added} added, {result.merged} merged, {len(result.refused)} refused")
    for line, reason in result.refused:
        click.echo(f"  line {line}: {reason}", err=True)
    if result.refused and not (result.added or result.merged):
        raise SystemExit(1)


@memory.command()
@click.argument("experience")
@click.option("--off", is_flag=True, help="Remove the pin.")
def pin(experience: str, off: bool) -> None:
    """Keep an experience whatever happens."""
    from accelopt_lsp.workbench.memory import open_memory

    with _clear_errors(), open_memory() as opened:
        found = opened.pin(experience, not off)
    click.echo(f"{'unpinned' if off else 'pinned'} {found.id}: {found.title}")


@memory.command()
@click.argument("experience")
def forget(experience: str) -> None:
    """Remove an experience."""
    from accelopt_lsp.workbench.memory import open_memory

    with _clear_errors(), open_memory() as opened:
        found = opened.forget(experience)
    click.echo(f"forgot {found.id}: {found.title}")


@memory.command()
@click.option("--keep", type=click.IntRange(0), default=1000, show_default=True)
def prune(keep: int) -> None:
    """Remove all but the most useful experiences; pinned ones stay."""
    from accelopt_lsp.workbench.memory import open_memory

    with _clear_errors(), open_memory() as opened:
        removed = opened.prune(keep)
    click.echo(f"removed {removed} experiences")


@click.group()
def runs() -> None:
    """Optimization runs: what was tried, and what came of it."""


@runs.command(name="list")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@_JSON
def list_runs(limit: int, as_json: bool) -> None:
    """List the latest runs."""
    from accelopt_lsp.cli_output import console, milliseconds
    from accelopt_lsp.workbench.memory import open_runs

    with _clear_errors(), open_runs() as store:
        rows = [record.summary() for record in store.runs(limit)]
    if as_json:
        print_json({"schema_version": 1, "runs": rows})
        return
    if not rows:
        click.echo("no runs yet")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("run", "started", "status", "kernel", "target", "before", "after", "tried"):
        table.add_column(heading)
    for row in rows:
        table.add_row(
            row["run"],
            time.strftime("%Y-%m-%d %H:%M", time.localtime(row["created"])),
            row["status"],
            f"{Path(row['path']).name}::{row['function']}",
            row["target"],
            milliseconds(row["baseline_ms"]),
            milliseconds(row["best_ms"]),
            str(row["evaluations"]),
        )
    console().print(table)


@runs.command(name="show")
@click.argument("run")
@_JSON
def show_run(run: str, as_json: bool) -> None:
    """Show one run: latencies, what its models cost, result."""
    from accelopt_lsp.workbench.memory import open_runs, run_spending

    with _clear_errors(), open_runs() as store:
        record = store.load(run)
        spending = run_spending(store, record.id)
    if as_json:
        shown = {**record.summary(), "spending": spending, "result": record.result}
        print_json({"schema_version": 1, **shown})
        return
    for name, value in record.summary().items():
        click.echo(f"{name}: {value}")
    for row in spending:
        costs = [
            f"{label} {row[name]:.4g} USD" if row[name] is not None else f"{label} unknown"
            for name, label in (("cost_usd", "cost"), ("cost_usd_per_point", "for a point of peak"))
        ]
        uncounted = "" if row["tokens"] is not None else " and some uncounted"
        click.echo(
            f"{row['role']} on {row['model']}: {row['requests']} requests, "
            f"{row['counted_tokens']} tokens{uncounted}, " + ", ".join(costs)
        )
    if record.result and record.result.get("diff"):
        click.echo(record.result["diff"])


@runs.command(name="export")
@click.argument("run")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
def export_run(run: str, file: Path | None) -> None:
    """Write everything a run did as JSON, to FILE or stdout."""
    import json

    from accelopt_lsp.workbench.memory import open_runs

    with _clear_errors(), open_runs() as store:
        data = store.export(run)
    if file is None:
        print_json(data)
        return
    with _clear_errors():
        file.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
    click.echo(f"wrote {file}")
