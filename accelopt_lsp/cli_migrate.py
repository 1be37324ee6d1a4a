"""``accelopt migrate``: legacy kernels in the current dialect."""

from __future__ import annotations

from pathlib import Path

import click

from accelopt_lsp.cli_options import (
    FINDINGS,
    fail,
    kernel_options,
    kernel_request,
    print_json,
    run_async,
    usage_errors,
)
from accelopt_lsp.nki.arguments import ArgumentSpec


@click.command()
@kernel_options
@click.option("--diff", is_flag=True, help="Show what changes (the default).")
@click.option("--in-place", is_flag=True, help="Write the result over the kernel's file.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the result to this file.")
@click.option(
    "--partial",
    is_flag=True,
    help="Leave what cannot be migrated, with a comment that says why.",
)
@click.option("--no-verify", is_flag=True, help="Do not run original and result.")
def migrate(
    kernel: tuple[Path, str | None],
    target: str | None,
    reference: Path | None,
    arguments: tuple[tuple[str, ArgumentSpec], ...],
    grid: tuple[int, ...],
    as_json: bool,
    diff: bool,
    in_place: bool,
    out: Path | None,
    partial: bool,
    no_verify: bool,
) -> None:
    """Migrate kernels from neuronxcc.nki to current NKI.

    The whole file is migrated, since it imports one dialect. Shapes must be known. Original and
    result run on the same inputs in the simulator; exit status 1 means that outputs differ, and
    then nothing is written. A statement that has no current form is named with the reason.

    \b
    accelopt migrate kernel.py                 what would change
    accelopt migrate kernel.py --in-place      change the file
    """
    from accelopt_lsp.cli_output import console, error_console, show_diff
    from accelopt_lsp.workbench.migrate import MigrateRequest, migrate_file
    from accelopt_lsp.workbench.requests import write_source

    if out is not None and in_place:
        fail("--out and --in-place exclude each other")
    request = MigrateRequest(
        kernel_request(kernel, target, reference, arguments, grid), partial, not no_verify
    )
    report = run_async(migrate_file(request))
    destination = report.path if in_place else out
    if as_json:
        print_json(report.to_json())
    elif diff or destination is None:
        show_diff(console(), report.diff)
    told = error_console()
    for line, reason in report.by_hand:
        told.print(f"line {line}: migrate by hand: {reason}", markup=False)
    for check in report.checks:
        if check.correct:
            told.print(f"{check.function}: outputs are those of the original", markup=False)
        elif check.correct is None:
            told.print(f"{check.function}: not run: {check.reason}", markup=False)
        else:
            what = check.reason or f"outputs differ, relative error {check.error:.3g}"
            told.print(f"{check.function}: {what}", markup=False)
    if report.wrong:
        raise SystemExit(FINDINGS)
    if destination is not None:
        with usage_errors():
            over = report.text if in_place else None
            write_source(destination, report.new_text, like=report.path, over=over)
        told.print(f"wrote {destination}", markup=False)
