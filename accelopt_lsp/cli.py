"""The ``accelopt`` command: options in, use cases of the workbench, results out.

Exit status: 0 fine; 1 findings, not improved or incorrect; 2 usage or environment error.
With ``--json`` one object goes to stdout and nothing else; progress goes to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import accelopt_lsp
from accelopt_lsp.cli_bench import bench
from accelopt_lsp.cli_memory import memory
from accelopt_lsp.cli_migrate import migrate
from accelopt_lsp.cli_optimize import optimize
from accelopt_lsp.cli_options import (
    FINDINGS,
    INTERRUPTED,
    USAGE,
    ArgumentType,
    KernelType,
    TargetType,
    cache_option,
    fail,
    kernel_options,
    kernel_request,
    print_json,
    read_option,
    run_async,
    usage_errors,
)
from accelopt_lsp.cli_runs import runs
from accelopt_lsp.nki.arguments import ArgumentSpec
from accelopt_lsp.nki.targets import target_names

if TYPE_CHECKING:
    from accelopt_lsp.workbench.profile import ProfileRequest


class _Commands(click.Group):
    """Commands that say the same when they are interrupted, whatever they were doing."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("accelopt: interrupted", err=True)
            raise SystemExit(INTERRUPTED) from None


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(accelopt_lsp.__version__, prog_name="accelopt")
def cli() -> None:
    """Check, profile and optimize NKI kernels for AWS Trainium.

    No Trainium and no LLM are needed: a built-in simulator runs the kernels.

    \b
    accelopt check src/                       what hardware and compiler would reject
    accelopt profile kernel.py                predicted latency, bound, dearest lines
    accelopt optimize kernel.py --diff        a faster, verified version
    """


@cli.command(short_help="Report what would be rejected, and what is slow.")
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH..."
)
@click.option("--target", type=TargetType(), help=f"Hardware: {', '.join(target_names())}.")
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    show_default=True,
    help="How to print findings.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--fix", is_flag=True, help="Apply the safe fixes first.")
@click.option(
    "--select",
    multiple=True,
    metavar="CODES",
    help="Report only these codes, or those that begin so: R023,P.",
)
@click.option("--ignore", multiple=True, metavar="CODES", help="Do not report these.")
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave out what folders hold under this pattern.",
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="File of known findings; only new ones are reported.",
)
@click.option(
    "--write-baseline",
    type=click.Path(path_type=Path),
    help="Write all findings to this file as known.",
)
@click.option("--strict", is_flag=True, help="Exit 1 on any finding, not only on errors.")
@click.option(
    "--jobs", type=click.IntRange(1), help="Worker processes; as many as cores if not given."
)
@click.option(
    "--no-cache", is_flag=True, help="Neither use nor fill the cache of earlier findings."
)
@click.option(
    "--stdin-filename",
    type=click.Path(path_type=Path),
    help="File that the text on standard input (-) is meant for.",
)
def check(
    paths: tuple[Path, ...],
    target: str | None,
    style: str,
    as_json: bool,
    fix: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    exclude: tuple[str, ...],
    baseline: Path | None,
    write_baseline: Path | None,
    strict: bool,
    jobs: int | None,
    no_cache: bool,
    stdin_filename: Path | None,
) -> None:
    """Report what hardware and compiler would reject, and what is slow. Runs no kernel.

    PATH is a file, a folder, a pattern, or - for standard input. Silence a finding with
    # accelopt: ignore[CODE] on its line; accelopt explain CODE tells more about it.
    """
    from accelopt_lsp.cli_output import console, progress_line
    from accelopt_lsp.workbench import check as checking
    from accelopt_lsp.workbench import check_baseline, check_formats
    from accelopt_lsp.workbench.check_cache import CheckCache, cache_dir
    from accelopt_lsp.workbench.fixes import fix_paths

    from_stdin = Path("-") in paths
    if from_stdin and (len(paths) > 1 or fix):
        fail("- stands alone, without other paths and without --fix")
    with usage_errors():
        selection = checking.Selection.parse(select, ignore)
        if from_stdin:
            text = sys.stdin.buffer.read().decode("utf-8-sig", "replace").replace("\r\n", "\n")
            report = checking.check_source(text, stdin_filename, target=target, selection=selection)
        else:
            if fix:
                for changed in fix_paths(
                    paths, target=target, exclude=exclude, selection=selection
                ):
                    click.echo(f"{changed.path}: {changed.fixes} fixed", err=True)
            with progress_line(not as_json) as update:
                report = checking.check_paths(
                    paths,
                    target=target,
                    selection=selection,
                    exclude=exclude,
                    jobs=jobs,
                    cache=None if no_cache else CheckCache(cache_dir()),
                    progress=update
                    and (lambda done, total: update(f"{done}/{total}", done / total)),
                )
        if baseline is not None:
            report = check_baseline.only_new(report, baseline)
        if write_baseline is not None:
            check_baseline.write_baseline(report, write_baseline)
    style = "json" if as_json else style
    if style == "json":
        print_json(check_formats.to_json(report))
    elif style == "sarif":
        print_json(check_formats.to_sarif(report))
    elif style == "github":
        click.echo(check_formats.to_github(report))
    else:
        console().print(check_formats.to_text(report), markup=False, soft_wrap=True)
    raise SystemExit(report.exit_code(strict=strict))


@cli.command(short_help="Predict a kernel's latency and what bounds it.")
@kernel_options
@click.option("--backend", default="simulator", show_default=True, help="What runs the kernel.")
@click.option("--no-verify", is_flag=True, help="Trace only; do not compare outputs.")
@click.option(
    "--what-if",
    "what_if",
    is_flag=True,
    help="Also predict the latency with DMA free, PE at peak, no spills, and so on.",
)
@cache_option
@click.option(
    "--trace",
    "timeline",
    type=click.Path(path_type=Path),
    help="Write a timeline for Perfetto (ui.perfetto.dev).",
)
@read_option
def profile(
    kernel: tuple[Path, str | None],
    target: str | None,
    reference: Path | None,
    arguments: tuple[tuple[str, ArgumentSpec], ...],
    grid: tuple[int, ...],
    as_json: bool,
    backend: str,
    no_verify: bool,
    what_if: bool,
    no_cache: bool,
    timeline: Path | None,
    read_paths: tuple[Path, ...],
) -> None:
    """Predict a kernel's latency and what bounds it; verify its outputs.

    Arguments come from --arg, a comment above the kernel
    (# accelopt: x=f32[4096,1024] eps=1e-5), a reference file, annotations or asserts.
    docs/latency-model.md says how to read a profile. Results are kept in the user's cache folder
    and used again as long as kernel, files, arguments and model are the same.
    A folder instead of a file profiles all its kernels and shows a line for each.
    """
    from accelopt_lsp.cli_output import console, progress_line, show_failure, show_profile
    from accelopt_lsp.workbench.profile import ProfileRequest, profile_kernel

    request = ProfileRequest(
        kernel=kernel_request(kernel, target, reference, arguments, grid),
        verify=not no_verify,
        backend=backend,
        timeline=timeline.resolve() if timeline else None,
        what_ifs=what_if,
        use_cache=not no_cache,
        read_paths=tuple(p.resolve() for p in read_paths),
    )
    if kernel[0].is_dir():
        _profile_folder(request, as_json)
        return
    with progress_line(not as_json) as progress:
        report = run_async(profile_kernel(request, progress))
    if as_json:
        print_json(report.to_json())
    elif report.profile is not None:
        show_profile(console(), report.profile, report.kernel.text)
    if report.profile is None:
        if not as_json:
            show_failure(report.failure, str(report.kernel.path))
        raise SystemExit(FINDINGS)
    if report.profile.correct is False:
        raise SystemExit(FINDINGS)


def _profile_folder(request: ProfileRequest, as_json: bool) -> None:
    """All kernels of a folder; exit status 1 if one did not run or is wrong."""
    from accelopt_lsp.cli_output import console, progress_line, show_profiles
    from accelopt_lsp.workbench.profile_folder import FolderRow, kernels_of, profile_folder

    folder = request.kernel.path
    with usage_errors():
        kernels = kernels_of([folder.resolve()])
    if not kernels:
        fail(f"no kernel (a function decorated with nki.jit) in {folder}")
    rows: list[FolderRow] = []

    async def collect(update: Any) -> None:
        async for row in profile_folder(request, kernels):
            rows.append(row)
            if update is not None:
                update(f"{len(rows)} of {len(kernels)} kernels", len(rows) / len(kernels))

    with progress_line(not as_json) as progress:
        run_async(collect(progress))
    if as_json:
        print_json({"schema_version": 1, "profiles": [row.to_json() for row in rows]})
    else:
        show_profiles(console(), rows, folder.resolve())
    if not all(row.fine for row in rows):
        raise SystemExit(FINDINGS)


@cli.command()
@click.argument("first", type=KernelType(), metavar="A[::FUNCTION]")
@click.argument("second", type=KernelType(), metavar="B[::FUNCTION]")
@click.option("--target", type=TargetType(), help=f"Hardware: {', '.join(target_names())}.")
@click.option(
    "--arg",
    "arguments",
    type=ArgumentType(),
    multiple=True,
    metavar="NAME=SPEC",
    help="Argument of both kernels. Repeatable.",
)
@cache_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compare(
    first: tuple[Path, str | None],
    second: tuple[Path, str | None],
    target: str | None,
    arguments: tuple[tuple[str, ArgumentSpec], ...],
    no_cache: bool,
    as_json: bool,
) -> None:
    """Profile two kernels and show them side by side."""
    from accelopt_lsp.cli_output import console, progress_line, show_comparison, show_failure
    from accelopt_lsp.profiler.comparison import rankable
    from accelopt_lsp.workbench.profile import ProfileRequest, profile_kernel

    reports = []
    for kernel in (first, second):
        request = ProfileRequest(
            kernel=kernel_request(kernel, target, None, arguments, ()), use_cache=not no_cache
        )
        with progress_line(not as_json) as progress:
            reports.append(run_async(profile_kernel(request, progress)))
    if as_json:
        latencies = [None if r.profile is None else r.profile.latency_ms for r in reports]
        print_json(
            {
                "schema_version": 1,
                "first": reports[0].to_json(),
                "second": reports[1].to_json(),
                "rankable": rankable(*latencies),
            }
        )
    failed = [r for r in reports if r.profile is None]
    if failed:
        for report in failed:
            show_failure(report.failure, str(report.kernel.path))
        raise SystemExit(FINDINGS)
    if not as_json:
        left, right = (
            (f"{r.kernel.path.name}::{r.kernel.source.qualname}", r.profile) for r in reports
        )
        show_comparison(console(), left, right)


@cli.command(short_help="Show the page of a rule, or the list of them.")
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Show the page of a rule: what it does, why, an example, what to use instead.

    CODE is a code or a name, such as R023 or partition-limit. Without it, all rules are listed.
    """
    from accelopt_lsp.analysis.rules import explain as page
    from accelopt_lsp.analysis.rules import rule_names

    if code is None:
        click.echo("\n".join(f"{rule}  {name}" for rule, name in rule_names().items()))
        return
    try:
        click.echo(page(code))
    except KeyError as error:
        fail(error.args[0])


@cli.command(
    short_help="Run a script with nki and neuronxcc.nki simulated.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "--target",
    type=TargetType(),
    help=f"Hardware: {', '.join(target_names())}. Wins over the environment and the decorator.",
)
@click.option("-m", "module", is_flag=True, help="Run a module, as python -m does.")
@click.option("--sandbox", is_flag=True, help="No network, no processes, no writes outside.")
@click.argument("script", type=click.Path(), metavar="SCRIPT|MODULE")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
def run(
    target: str | None, module: bool, sandbox: bool, script: str, argv: tuple[str, ...]
) -> None:
    """Run a Python script in which nki and neuronxcc.nki are the simulator.

    Existing scripts and test suites run without the SDK. Options of accelopt come before the
    script; everything after it is the script's own.

    \b
    accelopt run test_softmax.py
    accelopt run --target trn3 test_softmax.py --size 512
    accelopt run -m pytest tests/

    Kernels run for the target of --target, else of the environment variable
    NEURON_PLATFORM_TARGET_OVERRIDE (trn1, inf2 or gen2; trn2 or gen3; trn3 or gen4), else of the
    decorator's platform_target=, else for trn1 (neuronxcc.nki) or trn2 (nki).
    NKI_PRECISE_FP=0 keeps floating-point values in float32 between instructions.

    nki-version of the project's settings (pyproject.toml) is the version of NKI in force.
    A kernel that hardware or compiler would refuse raises KernelRejected: the message has the
    figures, and accelopt explain CODE tells more about the rule.
    """
    from accelopt_lsp.profiler.simulator import run_script
    from accelopt_lsp.workbench.settings import settings_for

    with usage_errors():
        version = settings_for(Path.cwd() if module else Path(script)).nki_version
    status = run_script(
        script, argv, module=module, sandbox=sandbox, target=target, nki_version=version
    )
    raise SystemExit(status)


@cli.command()
@click.option("--tcp", "port", type=click.IntRange(0, 65535), help="Serve on this local port.")
def serve(port: int | None) -> None:
    """Run the language server (on stdin and stdout by default)."""
    from accelopt_lsp.server import start

    start(port)


@cli.command()
@click.option("--llm-url", metavar="URL", help="Also look at this endpoint of models.")
@click.option("--model", metavar="NAME", help="Whether it has this model.")
@click.option("--ask", is_flag=True, help="Have each model answer a few tokens.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(llm_url: str | None, model: str | None, ask: bool, as_json: bool) -> None:
    """Check this installation and say what is missing.

    With --llm-url, --model or --ask, or where a model is configured, it asks the endpoint for its
    list of models, too; only --ask has a model answer.
    """
    from accelopt_lsp.cli_output import console, show_findings
    from accelopt_lsp.workbench.doctor import examine
    from accelopt_lsp.workbench.endpoints import examine_endpoints

    given = {"base_url": llm_url, "model": model}
    findings = (*examine(), *asyncio.run(examine_endpoints(Path.cwd(), given, ask=ask)))
    if as_json:
        print_json(
            {
                "schema_version": 1,
                "findings": [{"name": f.name, "ok": f.ok, "detail": f.detail} for f in findings],
            }
        )
    else:
        show_findings(console(), findings)
    if any(f.ok is False for f in findings):
        raise SystemExit(USAGE)


cli.add_command(bench)
cli.add_command(migrate)
cli.add_command(optimize)
cli.add_command(memory)
cli.add_command(runs)


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def main(arguments: list[str] | None = None) -> None:
    """Entry point of ``accelopt``."""
    for stream in (sys.stdout, sys.stderr):
        # What the terminal's encoding lacks is written as an escape; that is no reason to fail.
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    try:
        cli(arguments, prog_name="accelopt")
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        # What stdout still holds would fail again when the interpreter ends.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        fail(f"cannot write: {error.strerror}")


def serve_main() -> None:
    """Entry point of ``accelopt-lsp``: ``accelopt serve`` with the same options."""
    main(["serve", *sys.argv[1:]])
