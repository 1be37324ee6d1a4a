"""``accelopt optimize``: a faster version of a kernel, verified."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import define

from accelopt_lsp.cli_options import (
    FINDINGS,
    LinesType,
    ParamType,
    cache_option,
    fail,
    kernel_options,
    kernel_request,
    print_json,
    read_option,
    usage_errors,
)
from accelopt_lsp.nki.arguments import ArgumentSpec

if TYPE_CHECKING:
    from accelopt_lsp.agents.search import SearchEvent
    from accelopt_lsp.workbench.optimize import OptimizeReport


class ChoiceType(ParamType):
    """``NAME=VALUE`` with a value of Python's."""

    name = "name=value"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        name, separator, text = str(value).partition("=")
        if not separator or not name.strip():
            self.fail(f"{value!r} is not NAME=VALUE, such as patience=5", param, ctx)
        try:
            return name.strip(), ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            return name.strip(), text.strip()


@define
class _Interruption:
    """Says, when a run is interrupted, what it found and how to go on."""

    path: Path
    run: str | None = None
    best: OptimizeReport | None = None

    def improved(self, report: OptimizeReport) -> None:
        self.best = report

    def listener(
        self, progress: Callable[[SearchEvent], Any] | None
    ) -> Callable[[SearchEvent], None]:
        def listen(event: SearchEvent) -> None:
            self.run = event.run or self.run
            if progress is not None:
                progress(event)

        return listen

    def explain(self) -> None:
        if self.best is not None and self.best.speedup is not None:
            found = f"{self.best.speedup:.2f} times as fast so far, not yet verified on all inputs"
            click.echo(f"accelopt: {found}", err=True)
        if self.run is not None:
            click.echo(
                "accelopt: everything evaluated is kept; go on with\n"
                f"  accelopt optimize {self.path} --resume {self.run}",
                err=True,
            )


@click.command(short_help="Search for a faster, verified version of a kernel.")
@kernel_options
@click.option("--backend", default="simulator", show_default=True, help="What runs attempts.")
@click.option(
    "--agents",
    type=click.Choice(["offline", "llm"]),
    default="offline",
    show_default=True,
    help="Who plans and writes: the built-in catalogue of rewrites, or language models.",
)
@click.option("--llm-url", metavar="URL", help="OpenAI-compatible endpoint, http://HOST:PORT/v1.")
@click.option("--model", metavar="NAME", help="Model of all roles; implies --agents llm.")
@click.option(
    "--budget-usd", type=click.FloatRange(0, min_open=True), help="Dollars for models, by prices."
)
@click.option("--budget-tokens", type=click.IntRange(1), help="Tokens for models.")
@click.option("--beam", type=click.IntRange(1), help="Candidates kept after each iteration.")
@click.option("--plans", type=click.IntRange(1), help="Plans for each candidate.")
@click.option("--attempts", type=click.IntRange(1), help="Tries at each plan.")
@click.option("--iterations", type=click.IntRange(0), help="Iterations of the search.")
@click.option("--fix-rounds", type=click.IntRange(0), help="Repairs of a failed attempt.")
@click.option("--budget-seconds", type=click.FloatRange(0, min_open=True), help="Time to search.")
@click.option("--seed", type=int, help="Makes a run repeatable.")
@click.option(
    "--lines",
    type=LinesType(),
    metavar="A-B",
    help="Only steps about these lines of the file, such as one loop.",
)
@click.option(
    "--set",
    "choices",
    type=ChoiceType(),
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other choice of the search, such as patience=5. Repeatable.",
)
@click.option("--allow-lower-precision", is_flag=True, help="Accept narrower data types.")
@click.option(
    "--memory-policy",
    type=click.Choice(["retrieval", "queue", "none"]),
    help="Experiences to start with: those that fit, or the latest (as published).",
)
@click.option("--no-memory", is_flag=True, help="Neither use nor fill the optimization memory.")
@cache_option
@click.option("--resume", metavar="RUN", help="Go on with an interrupted run.")
@click.option("--replay", metavar="RUN", help="Repeat a run with its models' recorded replies.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the result to this file.")
@click.option("--in-place", is_flag=True, help="Write the result over the kernel's file.")
@click.option("--diff", is_flag=True, help="Show what changed.")
@read_option
def optimize(
    kernel: tuple[Path, str | None],
    target: str | None,
    reference: Path | None,
    arguments: tuple[tuple[str, ArgumentSpec], ...],
    grid: tuple[int, ...],
    as_json: bool,
    backend: str,
    agents: str,
    llm_url: str | None,
    model: str | None,
    budget_usd: float | None,
    budget_tokens: int | None,
    choices: tuple[tuple[str, Any], ...],
    memory_policy: str | None,
    no_memory: bool,
    no_cache: bool,
    resume: str | None,
    replay: str | None,
    out: Path | None,
    in_place: bool,
    diff: bool,
    read_paths: tuple[Path, ...],
    **search: Any,
) -> None:
    """Search for a faster version of a kernel, verified on five inputs.

    Exit status 1 means that nothing faster was found. An interrupted run can be resumed: Ctrl-C
    says how. [tool.accelopt.search] of pyproject.toml sets what is not said here.

    \b
    accelopt optimize kernel.py --diff                       the built-in catalogue
    accelopt optimize kernel.py --llm-url http://localhost:11434 --model NAME
    A model at any OpenAI-compatible endpoint; the key comes from ACCELOPT_LLM_API_KEY.
    """
    from accelopt_lsp.cli_output import (
        console,
        error_console,
        search_progress,
        show_failure,
        show_optimization,
    )
    from accelopt_lsp.workbench.optimize import OptimizeRequest, optimize_kernel
    from accelopt_lsp.workbench.requests import write_source
    from accelopt_lsp.workbench.searching import search_settings

    if out is not None and in_place:
        fail("--out and --in-place exclude each other")
    if resume is not None and replay is not None:
        fail("--resume and --replay exclude each other")
    chosen = {name: value for name, value in search.items() if value is not None}
    with usage_errors():
        settings = search_settings(kernel[0], {**dict(choices), **chosen})
    request = OptimizeRequest(
        kernel=kernel_request(kernel, target, reference, arguments, grid),
        search=settings,
        agents="llm" if model or llm_url else agents,
        llm={
            "base_url": llm_url,
            "model": model,
            "budget_usd": budget_usd,
            "budget_tokens": budget_tokens,
        },
        backend=backend,
        read_paths=tuple(p.resolve() for p in read_paths),
        use_memory=not no_memory,
        memory_policy=memory_policy,
        use_cache=not no_cache,
        resume=resume,
        replay=replay,
    )
    stopped = _Interruption(kernel[0])
    with usage_errors(), search_progress(not as_json) as progress:
        try:
            listen = stopped.listener(progress)
            report = asyncio.run(optimize_kernel(request, listen, improved=stopped.improved))
        except KeyboardInterrupt:
            stopped.explain()
            raise
    if as_json:
        print_json(report.to_json())
    elif report.failure is None:
        show_optimization(console(), report, with_diff=diff)
    if report.failure is not None:
        if not as_json:
            show_failure(report.failure, str(report.kernel.path))
        raise SystemExit(FINDINGS)
    if report.new_text is None:
        raise SystemExit(FINDINGS)
    destination = report.kernel.path if in_place else out
    if destination is not None:
        with usage_errors():
            over = report.kernel.text if in_place else None
            write_source(destination, report.new_text, like=report.kernel.path, over=over)
        error_console().print(f"wrote {destination}")
