"""Options and helpers that the commands share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem

from accelopt_lsp.nki.arguments import ArgumentSpec, SpecError, parse_spec
from accelopt_lsp.nki.targets import get_target, target_names

F = TypeVar("F", bound=Callable[..., Any])
FINDINGS, USAGE, INTERRUPTED = 1, 2, 130

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

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in target_names() if name.startswith(incomplete)]


class KernelType(ParamType):
    """``FILE`` or ``FILE::FUNCTION``."""

    name = "kernel"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[Path, str | None]:
        if isinstance(value, tuple):
            return value
        path, separator, function = str(value).rpartition("::")
        return (Path(path), function) if separator else (Path(function), None)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


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


class LinesType(ParamType):
    """``A-B``, or one line."""

    name = "lines"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        first, separator, last = str(value).partition("-")
        try:
            lines = (int(first), int(last if separator else first))
        except ValueError:
            lines = (0, 0)
        if not 1 <= lines[0] <= lines[1]:
            self.fail(f"{value!r} are no lines such as 20-31", param, ctx)
        return lines


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


def read_option(function: F) -> F:
    """``--read PATH``, which gives ``read_paths``."""
    return click.option(
        "--read",
        "read_paths",
        type=click.Path(path_type=Path),
        multiple=True,
        help="Further folder that the kernel may read. Repeatable.",
    )(function)


def cache_option(function: F) -> F:
    """Option that keeps results out of the cache."""
    option = click.option(
        "--no-cache",
        is_flag=True,
        help="Simulate anew; neither use nor fill the cache of results.",
    )
    return option(function)


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


@contextmanager
def usage_errors() -> Iterator[None]:
    """Known errors of requests become usage errors."""
    from accelopt_lsp.workbench.requests import RequestError
    from accelopt_lsp.workbench.settings import SettingsError

    try:
        yield
    except (RequestError, SettingsError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        click.echo("accelopt: interrupted", err=True)
        raise SystemExit(INTERRUPTED) from None


def run_async(coroutine: Any) -> Any:
    """Run a use case; Ctrl-C cancels it, which ends its child."""
    with usage_errors():
        return asyncio.run(coroutine)
