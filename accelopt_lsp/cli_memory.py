"""``accelopt memory``: what was learned."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from accelopt_lsp.cli_options import fail, print_json

if TYPE_CHECKING:
    from accelopt_lsp.agents.roles import Experience

JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def _tell(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(f"accelopt: {note}", err=True)


def printable(text: str) -> str:
    """Somebody else's text without what steers a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def day_and_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


@contextmanager
def clear_errors() -> Iterator[None]:
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
    """What the optimizer has learned, with wins and losses."""


@memory.command()
def path() -> None:
    """Print the file that holds the memory."""
    from accelopt_lsp.workbench.memory import memory_path

    click.echo(memory_path())


@memory.command(name="list")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
@JSON_OPTION
def list_experiences(limit: int, as_json: bool) -> None:
    """List the latest experiences."""
    from accelopt_lsp.workbench.memory import open_memory

    with clear_errors(), open_memory() as opened:
        _show_experiences(opened.list(limit), as_json, "the memory is empty")
        if not as_json and len(opened) > limit:
            click.echo(f"{limit} of {len(opened)}; --limit shows more", err=True)
        _tell(opened.notes)


@memory.command()
@click.argument("text")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@JSON_OPTION
def search(text: str, limit: int, as_json: bool) -> None:
    """Find experiences by words."""
    from accelopt_lsp.workbench.memory import open_memory

    with clear_errors(), open_memory() as opened:
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
    for heading in ("id", "gain", "won", "lost", "bound", "target", "", "strategy"):
        right = heading in ("gain", "won", "lost")
        table.add_column(heading, justify="right" if right else "left", no_wrap=heading == "id")
    for item in found:
        marks = f"{'' if item.trusted else 'imported'} {'pinned' if item.pinned else ''}".strip()
        table.add_row(
            item.id,
            f"{item.ratio:.2f}x",
            str(item.wins),
            str(item.losses),
            Text(printable(item.tags.bottleneck or "")),
            Text(printable(item.tags.target or "")),
            marks,
            Text(printable(item.title)),
        )
    console().print(table)


def _show_experience(found: Experience) -> None:
    """One experience for people: strategy, evidence, situation, where it comes from."""
    from accelopt_lsp.cli_output import console

    out = console()
    out.print(Text(printable(found.title), style="bold"))
    out.print(Text(printable(found.text)))
    for name, code in (("before", found.before), ("after", found.after)):
        if code:
            out.print(Text(f"\n{name}:", style="bold"))
            out.print(Syntax(printable(code), "python", theme="ansi_dark"))
    tags, origin = found.tags, found.origin
    verb = "gained" if found.helpful else "lost when done"
    rows = {
        "id": found.id,
        verb: f"{found.ratio:.2f}x ({origin.figures or 'unknown provenance'})",
        "used again": f"{found.wins} won, {found.losses} lost",
        "elsewhere": f"{found.reported_wins} won, {found.reported_losses} lost, as reported"
        if found.reported_wins or found.reported_losses
        else "",
        "bound": tags.bottleneck or "",
        "instructions": ", ".join(tags.instructions),
        "engines": ", ".join(tags.engines),
        "situation": ", ".join(
            filter(
                None, (tags.loop_pattern, tags.shape_class, tags.dtype, tags.dialect, tags.target)
            )
        ),
        "rewrite": found.rewrite or "",
        "from": f"{origin.author} {origin.version}, run {origin.run or 'unknown'}, "
        f"kernel {origin.kernel or 'unknown'}"
        + (f", {day_and_time(origin.created)}" if origin.created else ""),
        "trust": "" if found.trusted else "imported: not trusted until it wins here once",
        "pinned": "yes" if found.pinned else "",
    }
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for name, value in rows.items():
        if value:
            table.add_row(name, Text(printable(value)))
    out.print()
    out.print(table)


@memory.command()
@click.argument("experience")
@click.option("--code", is_flag=True, help="With the kernels it was learned from (--json only).")
@JSON_OPTION
def show(experience: str, code: bool, as_json: bool) -> None:
    """Show one experience with its evidence."""
    from accelopt_lsp.workbench.memory import experience_json, open_memory

    with clear_errors(), open_memory() as opened:
        found = opened.get(experience)
    if as_json:
        print_json(experience_json(found, with_code=code))
    else:
        _show_experience(found)


@memory.command(name="export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--code", is_flag=True, help="With the kernels themselves, not only pseudocode.")
def export_experiences(file: Path, code: bool) -> None:
    """Write all experiences to FILE as JSON lines."""
    from accelopt_lsp.workbench.memory import export_memory

    with clear_errors():
        count = export_memory(file, with_code=code)
    click.echo(f"wrote {count} experiences to {file}")


@memory.command(name="import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def import_experiences(file: Path) -> None:
    """Take experiences from FILE, untrusted until they win here."""
    from accelopt_lsp.workbench.memory import import_memory

    with clear_errors():
        result = import_memory(file)
    click.echo(f"{result.added} added, {result.merged} merged, {len(result.refused)} refused")
    for line, reason in result.refused:
        click.echo(f"  line {line}: {printable(reason)}", err=True)
    if result.refused and not (result.added or result.merged):
        raise SystemExit(1)


@memory.command()
@click.argument("experience")
@click.option("--off", is_flag=True, help="Remove the pin.")
def pin(experience: str, off: bool) -> None:
    """Keep an experience whatever happens."""
    from accelopt_lsp.workbench.memory import open_memory

    with clear_errors(), open_memory() as opened:
        found = opened.pin(experience, not off)
    click.echo(f"{'unpinned' if off else 'pinned'} {found.id}: {found.title}")


@memory.command()
@click.argument("experience")
def forget(experience: str) -> None:
    """Remove an experience."""
    from accelopt_lsp.workbench.memory import open_memory

    with clear_errors(), open_memory() as opened:
        found = opened.forget(experience)
    click.echo(f"forgot {found.id}: {found.title}")


@memory.command()
@click.option("--keep", type=click.IntRange(0), default=1000, show_default=True)
def prune(keep: int) -> None:
    """Remove all but the most useful experiences; pinned ones stay."""
    from accelopt_lsp.workbench.memory import open_memory

    with clear_errors(), open_memory() as opened:
        removed = opened.prune(keep)
    click.echo(f"removed {removed} experiences")
