"""How the command line shows results to people. JSON is made where the results are."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from accelopt_lsp.cli_attribution import LEAST_SHARE, rate, show_attribution

if TYPE_CHECKING:
    from accelopt_lsp.agents.search import SearchEvent
    from accelopt_lsp.nki.profile import Profile
    from accelopt_lsp.profiler.base import Failure
    from accelopt_lsp.workbench.doctor import Finding
    from accelopt_lsp.workbench.optimize import OptimizeReport
    from accelopt_lsp.workbench.profile_folder import FolderRow


class _Trimmed:
    """Standard output without the blanks that fill up the last column of tables."""

    @property
    def encoding(self) -> str:
        return sys.stdout.encoding

    def write(self, text: str) -> int:
        return sys.stdout.write(_FILL.sub("", text))

    def flush(self) -> None:
        sys.stdout.flush()


_FILL = re.compile(r" +$", re.MULTILINE)


def console() -> Console:
    """Where results go. Wide enough for tables when the output is no terminal."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=140, file=cast(IO[str], _Trimmed()))


def error_console() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def progress_line(show: bool, first: str = "starting") -> Iterator[Any]:
    """A progress callback that draws on stderr, and only on a terminal.

    Args:
        first: what is shown until it is called.
    """
    if not (show and sys.stderr.isatty()):
        yield None
        return
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        console=error_console(),
        transient=True,
    ) as bar:
        task = bar.add_task(first, total=None)

        def update(message: str, share: float | None) -> None:
            bar.update(
                task,
                description=message,
                total=None if share is None else 1.0,
                completed=share or 0.0,
            )

        yield update


@contextmanager
def search_progress(show: bool) -> Iterator[Any]:
    """A listener for search events that draws on stderr, and only on a terminal."""
    with progress_line(show, "running the kernel as it is") as update:
        if update is None:
            yield None
            return

        def listen(event: SearchEvent) -> None:
            best = "" if event.evaluations == 0 else f", best {event.speedup:.2f}x"
            if event.usage.calls:
                best += ", " + event.usage.words().removesuffix(", cost unknown")
            update(
                f"iteration {event.iteration}/{event.iterations}, "
                f"{event.evaluations} evaluated{best}: {event.message}",
                event.fraction,
            )

        yield listen


def milliseconds(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:.3f} ms" if value >= 0.1 else f"{value * 1000:.1f} µs"


def size(value: float | None) -> str:
    """Bytes for people, in decimal units as bandwidths are."""
    if value is None:
        return "unknown"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{value / factor:.2f} {unit}"
    return f"{value:.0f} B"


def percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f} %"


def _correct(profile: Profile) -> str:
    if profile.correct is None:
        return "not checked"
    error = profile.max_relative_error
    shown = "" if error is None else f" (relative error {error:.1e})"
    against = "" if profile.reference is None else f" against {profile.reference}"
    return ("yes" if profile.correct else "NO") + against + shown


def _latency(profile: Profile) -> str:
    text = milliseconds(profile.latency_ms)
    spread = profile.uncertainty
    if spread is not None:
        text += (
            f"  ({milliseconds(spread.low_ms)} to {milliseconds(spread.high_ms)} "
            f"at {spread.level:.0%}{', extrapolated' if spread.extrapolated else ''})"
        )
    return text


def _basis(profile: Profile) -> str:
    basis = profile.percent_of_peak_basis
    return percent(profile.percent_of_peak) + (f" ({basis})" if basis else "")


def _rows(profile: Profile) -> list[tuple[str, str]]:
    counters = profile.counters
    rows = [
        ("latency", _latency(profile)),
        ("bound by", str(profile.bound or "unknown")),
        ("percent of peak", _basis(profile)),
        ("HBM read", size(counters.get("hbm_read_bytes"))),
        ("HBM written", size(counters.get("hbm_write_bytes"))),
        ("instructions", f"{profile.issued.total_instructions:,}"),
        ("outputs correct", _correct(profile)),
    ]
    for engine, busy in sorted(profile.engine_busy_ms.items(), key=lambda item: -item[1]):
        if busy > 0:
            share = f" ({busy / profile.latency_ms:.0%})" if profile.latency_ms else ""
            rows.append((f"{engine} busy", milliseconds(busy) + share))
    return rows


def show_profile(out: Console, profile: Profile, source: str) -> None:
    """One kernel's profile, its dearest lines, and what to know about the figures."""
    out.print(
        Text.assemble(
            (profile.kernel, "bold"),
            f" on {profile.target}, {profile.provenance}",
            "" if profile.backend == "simulator" else f" by {profile.backend}",
            " (cached)" if profile.cached else "",
        )
    )
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in _rows(profile):
        table.add_row(Text(name, "cyan"), value)
    out.print(table)
    show_attribution(out, profile)
    _show_lines(out, profile, source)
    _show_notes(out, profile)


def show_profiles(out: Console, rows: Sequence[FolderRow], folder: Path) -> None:
    """A line for each kernel of a folder."""
    table = Table(box=None, pad_edge=False)
    for heading in ("kernel", "target", "latency", "bound", "of peak", "correct"):
        table.add_column(heading, justify="left" if heading in ("kernel", "target") else "right")
    table.add_column("remark", overflow="fold", ratio=1)
    for row in rows:
        path = row.path.relative_to(folder) if row.path.is_relative_to(folder) else row.path
        name = f"{path}::{row.function}"
        profile = None if row.report is None else row.report.profile
        if profile is None:
            failure = None if row.report is None else row.report.failure
            reason = str(row.problem).partition(";")[0] if failure is None else failure.message
            at = "" if failure is None or failure.line is None else f"line {failure.line}: "
            table.add_row(Text(name), "", "-", "", "", "", Text(f"{at}{reason}", "red"))
            continue
        verdict = {None: "not checked", True: "yes", False: "NO"}[profile.correct]
        unknown = ", ".join(profile.unknown_instructions)
        table.add_row(
            Text(name),
            profile.target,
            milliseconds(profile.latency_ms),
            str(profile.bound or "unknown"),
            percent(profile.percent_of_peak),
            verdict,
            f"unknown cost: {unknown}" if unknown else "",
        )
    out.print(table)
    fine = sum(row.fine for row in rows)
    out.print(
        f"{fine} of {len(rows)} kernels ran" + ("" if fine == len(rows) else ", others above")
    )


def _show_lines(out: Console, profile: Profile, source: str) -> None:
    if not profile.lines:
        return
    text = source.splitlines()
    table = Table(
        box=None, pad_edge=False, title="dearest lines", title_justify="left", expand=True
    )
    for heading in ("line", "engine", "runs", "busy", "critical"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("source", overflow="ellipsis", no_wrap=True, ratio=1)
    for row in profile.lines[:8]:
        code = text[row.line - 1].strip() if 0 < row.line <= len(text) else ""
        table.add_row(
            str(row.line),
            row.engine,
            f"{row.instructions:,}",
            milliseconds(row.busy_ms),
            milliseconds(row.critical_ms),
            Text(code),
        )
    out.print()
    out.print(table)


def _show_notes(out: Console, profile: Profile) -> None:
    if profile.unknown_instructions:
        names = ", ".join(profile.unknown_instructions)
        out.print(Text(f"no total: the cost of {names} is not documented", "yellow"))
    for note in profile.notes:
        out.print(Text(f"note: {note}", "dim"))


def _shares(profile: Profile) -> list[tuple[str, str]]:
    """Bounded shares as rows to compare, largest first."""
    shares = sorted((profile.bounded_shares or {}).items(), key=lambda item: -item[1])
    return [
        (f"bounded by {name.replace('_', ' ')}", f"{share:.1%}")
        for name, share in shares
        if share >= LEAST_SHARE
    ]


def _rates(profile: Profile) -> list[tuple[str, str]]:
    """Achieved rates as rows to compare."""
    rows = []
    for use in profile.engines or ():
        unit = " elements/cycle" if use.unit == "elements/cycle" else ""
        rows.append((f"{use.engine} achieved", rate(use.achieved, use.unit) + unit))
        if use.mean_bytes is not None:
            rows.append(("bytes a descriptor", f"{use.mean_bytes:,.0f}"))
    return rows


def show_comparison(out: Console, first: tuple[str, Profile], second: tuple[str, Profile]) -> None:
    """Two profiles side by side."""
    from accelopt_lsp.profiler.comparison import RANKABLE, rankable

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column(first[0], overflow="fold")
    table.add_column(second[0], overflow="fold")
    for part in (_rows, _shares, _rates):
        left, right = dict(part(first[1])), dict(part(second[1]))
        for name in dict.fromkeys((*left, *right)):
            table.add_row(Text(name, "cyan"), left.get(name, "-"), right.get(name, "-"))
    out.print(table)
    if rankable(first[1].latency_ms, second[1].latency_ms) is False:
        out.print(
            f"The latencies differ by less than {RANKABLE:.0%}: this does not say which kernel is "
            "faster on hardware."
        )


def show_optimization(out: Console, report: OptimizeReport, *, with_diff: bool) -> None:
    """Before and after, the steps between them, and on request the diff."""
    name = report.kernel.source.qualname
    if report.baseline is not None and report.best is not None and report.improved:
        out.print(
            Text.assemble(
                (name, "bold"),
                f" on {report.kernel.target}: ",
                (f"{report.speedup:.2f} times as fast", "bold green"),
                f", {report.evaluations} evaluations",
                f" ({report.stopped})" if report.stopped else "",
            )
        )
        show_comparison(out, ("before", report.baseline), ("after", report.best))
        out.print()
        for number, step in enumerate(report.strategies, 1):
            change = f"{milliseconds(step.before_ms)} -> {milliseconds(step.after_ms)}"
            out.print(Text.assemble(f"{number}. ", (step.plan.title, "bold"), f"  {change}"))
            if step.plan.rationale:
                out.print(Text(f"   {step.plan.rationale}", "dim"))
    else:
        out.print(
            Text.assemble(
                (name, "bold"),
                f" on {report.kernel.target}: nothing faster found in "
                f"{report.evaluations} evaluations ({report.stopped or 'not searched'})",
            )
        )
        if report.baseline is not None:
            out.print(
                f"{_latency(report.baseline)}, bound by {report.baseline.bound or 'unknown'}; "
                "accelopt profile shows where the time goes"
            )
        if report.stopped and not report.usage.calls:
            hint = "the catalogue found nothing; a model may: --llm-url URL --model NAME"
            out.print(Text(hint, "dim"))
    if report.usage.calls:
        out.print(f"models: {report.usage.words()}")
    for note in report.notes:
        out.print(Text(f"note: {note}", "dim"))
    if report.run is not None:
        out.print(Text(f"run {report.run} (accelopt runs show {report.run})", "dim"))
    if with_diff and report.diff:
        out.print()
        show_diff(out, report.diff)


def show_diff(out: Console, diff: str) -> None:
    """A unified diff: whole lines, however long, so that what is piped can be applied."""
    if not out.is_terminal:
        sys.stdout.write(diff)
        return
    for line in diff.splitlines():
        style = next((s for start, s in _DIFF_STYLES if line.startswith(start)), "")
        out.print(Text(line, style), soft_wrap=True)


_DIFF_STYLES = (("---", "bold"), ("+++", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))


def show_failure(failure: Failure, path: str) -> None:
    """A failure on stderr, with the place in the kernel's file first."""
    from accelopt_lsp.workbench.check_formats import shown_path

    file = shown_path(path)
    place = file if failure.line is None else f"{file}:{failure.line}"
    code = f" [{failure.code}]" if failure.code else ""
    err = error_console()
    err.print(
        Text.assemble((f"{place}: ", "bold"), (f"{failure.kind}: ", "red"), failure.message, code)
    )
    for step, line, text in failure.trace:
        err.print(Text(f"  {shown_path(step)}:{line}: {text}", "dim"))


def show_findings(out: Console, findings: tuple[Finding, ...]) -> None:
    for finding in findings:
        mark = {True: ("ok", "green"), False: ("!!", "red"), None: ("--", "yellow")}[finding.ok]
        out.print(Text.assemble((mark[0], mark[1]), f"  {finding.name}: {finding.detail}"))
