"""The ``accelopt`` command: options in, use cases of the workbench, results out.

Exit status: 0 fine; 1 findings, not improved or incorrect; 2 usage or environment error.
With ``--json`` one object goes to stdout and nothing else; progress goes to stderr.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

import accelopt_lsp
from accelopt_lsp.nki.arguments import ArgumentSpec, SpecError, parse_spec
from accelopt_lsp.nki.targets import get_target, target_names

F = TypeVar("F", bound=Callable[..., Any])
FINDINGS, USAGE = 1, 2

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType


def fail(message: str) -> NoReturn:
    """Usage or environment error: message on stderr, exit status 2."""
    click.echo(f"accelopt: {message}", err=True)
    raise SystemExit(USAGE)


def print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2, allow_nan=False))


class TargetType(ParamType):
    """A target or one of its aliases."""

    name = "target"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        try:
            return get_target(str(value)).name
        except ValueError as error:
            self.fail(str(error), param, ctx)


class KernelType(ParamType):
    """``FILE`` or ``FILE::FUNCTION``."""

    name = "kernel"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[Path, str | None]:
        if isinstance(value, tuple):
            return value
        path, separator, function = str(value).rpartition("::")
        return (Path(path), function) if separator else (Path(function), None)


class ArgumentType(ParamType):
    """``NAME=SPEC``."""

    name = "name=spec"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ArgumentSpec]:
        if isinstance(value, tuple):
            return value
        name, separator, spec = str(value).partition("=")
        if not separator or not name.strip().isidentifier():
            self.fail(f"{value!r} is not NAME=SPEC, such as x=bf16[128,512]", param, ctx)
        try:
            return name.strip(), parse_spec(spec)
        except SpecError as error:
            self.fail(str(error), param, ctx)


class GridType(ParamType):
    """``2`` or ``2,4``."""

    name = "grid"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            sizes = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            sizes = ()
        if not sizes or any(s < 1 for s in sizes):
            self.fail(f"{value!r} is not a launch grid such as 2 or 2,4", param, ctx)
        return sizes


def kernel_options(function: F) -> F:
    """Options that say which kernel to run, and with what."""
    options = (
        click.argument("kernel", type=KernelType(), metavar="FILE[::FUNCTION]"),
        click.option("--target", type=TargetType(), help=f"Hardware: {', '.join(target_names())}."),
        click.option(
            "--reference",
            type=click.Path(path_type=Path),
            help="Python file with forward(), whose results are the expected outputs.",
        ),
        click.option(
            "--arg",
            "arguments",
            type=ArgumentType(),
            multiple=True,
            metavar="NAME=SPEC",
            help="Argument of the kernel, such as x=bf16[4096,1024] or eps=1e-5. Repeatable.",
        ),
        click.option("--grid", type=GridType(), default=(), help="SPMD launch grid: 2 or 2,4."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def kernel_request(
    kernel: tuple[Path, str | None],
    target: str | None,
    reference: Path | None,
    arguments: tuple[tuple[str, ArgumentSpec], ...],
    grid: tuple[int, ...],
) -> Any:
    from accelopt_lsp.workbench.requests import KernelRequest

    return KernelRequest(
        path=kernel[0],
        function=kernel[1],
        arguments=dict(arguments),
        target=target,
        reference=reference,
        grid=grid,
    )


def run_async(coroutine: Any) -> Any:
    """Run a use case; known errors of requests become usage errors, Ctrl-C ends the child."""
    from accelopt_lsp.workbench.requests import RequestError
    from accelopt_lsp.workbench.settings import SettingsError

    try:
        return asyncio.run(coroutine)
    except (RequestError, SettingsError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        click.echo("accelopt: interrupted", err=True)
        raise SystemExit(130) from None


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(accelopt_lsp.__version__, prog_name="accelopt")
def cli() -> None:
    """Check, profile and optimize NKI kernels for AWS Trainium.

    No Trainium and no LLM are needed: a built-in simulator runs the kernels.

    \b
    accelopt check src/                       what hardware and compiler would reject
    accelopt profile kernel.py                predicted latency, bound, dearest lines
    accelopt optimize kernel.py --diff        a faster, verified version
    """


@cli.command()
@kernel_options
@click.option("--backend", default="simulator", show_default=True, help="What runs the kernel.")
@click.option("--no-verify", is_flag=True, help="Trace only; do not compare outputs.")
@click.option(
    "--trace",
    "timeline",
    type=click.Path(path_type=Path),
    help="Write a timeline for Perfetto (ui.perfetto.dev).",
)
@click.option(
    "--read",
    "read_paths",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Further folder that the kernel may read. Repeatable.",
)
def profile(
    kernel: tuple[Path, str | None],
    target: str | None,
    reference: Path | None,
    arguments: tuple[tuple[str, ArgumentSpec], ...],
    grid: tuple[int, ...],
    as_json: bool,
    backend: str,
    no_verify: bool,
    timeline: Path | None,
    read_paths: tuple[Path, ...],
) -> None:
    """Predict a kernel's latency and what bounds it; verify its outputs.

    Arguments come from --arg, a comment above the kernel
    (# accelopt: x=f32[4096,1024] eps=1e-5), a reference file, annotations or asserts.
    """
    from accelopt_lsp.cli_output import console, progress_line, show_failure, show_profile
    from accelopt_lsp.workbench.profile import ProfileRequest, profile_kernel

    request = ProfileRequest(
        kernel=kernel_request(kernel, target, reference, arguments, grid),
        verify=not no_verify,
        backend=backend,
        timeline=timeline.resolve() if timeline else None,
        read_paths=tuple(p.resolve() for p in read_paths),
    )
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compare(
    first: tuple[Path, str | None],
    second: tuple[Path, str | None],
    target: str | None,
    arguments: tuple[tuple[str, ArgumentSpec], ...],
    as_json: bool,
) -> None:
    """Profile two kernels and show them side by side."""
    from accelopt_lsp.cli_output import console, progress_line, show_comparison, show_failure
    from accelopt_lsp.workbench.profile import ProfileRequest, profile_kernel

    reports = []
    for kernel in (first, second):
        request = ProfileRequest(kernel=kernel_request(kernel, target, None, arguments, ()))
        with progress_line(not as_json) as progress:
            reports.append(run_async(profile_kernel(request, progress)))
    if as_json:
        print_json(
            {"schema_version": 1, "first": reports[0].to_json(), "second": reports[1].to_json()}
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


@cli.command()
@click.argument("code")
def explain(code: str) -> None:
    """Show the page of a rule: what it does, why, an example, what to use instead."""
    from accelopt_lsp.analysis.rules import all_rules
    from accelopt_lsp.analysis.rules import explain as page

    known = sorted(rule.code for rule in all_rules())
    if code.upper() not in known:
        fail(f"no rule {code!r}; known: {', '.join(known)}")
    click.echo(page(code.upper()))


@cli.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-m", "module", is_flag=True, help="Run a module, as python -m does.")
@click.option("--sandbox", is_flag=True, help="No network, no processes, no writes outside.")
@click.argument("script")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
def run(module: bool, sandbox: bool, script: str, argv: tuple[str, ...]) -> None:
    """Run a Python script in which nki and neuronxcc.nki are the simulator.

    Existing scripts and test suites run without the SDK: accelopt run -m pytest tests/
    """
    from accelopt_lsp.profiler.simulator import run_script

    raise SystemExit(run_script(script, argv, module=module, sandbox=sandbox))


@cli.command()
@click.option("--tcp", "port", type=click.IntRange(0, 65535), help="Serve on this local port.")
def serve(port: int | None) -> None:
    """Run the language server (on stdin and stdout by default)."""
    from accelopt_lsp.server import start

    start(port)


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(as_json: bool) -> None:
    """Check this installation and say what is missing."""
    from accelopt_lsp.cli_output import console, show_findings
    from accelopt_lsp.workbench.doctor import examine

    findings = examine()
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


def main() -> None:
    """Entry point of ``accelopt``."""
    cli(prog_name="accelopt")


def serve_main() -> None:
    """Entry point of ``accelopt-lsp``: ``accelopt serve`` with the same options."""
    cli(["serve", *sys.argv[1:]], prog_name="accelopt")
