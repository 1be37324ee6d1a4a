"""``accelopt bench``: how far to trust a simulated latency."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelopt_lsp.cli_options import FINDINGS, fail, print_json, run_async, usage_errors

if TYPE_CHECKING:
    from accelopt_lsp.profiler.comparison import Comparison, Criterion, Summary
    from accelopt_lsp.workbench.ablation import AblationReport, AblationRow
    from accelopt_lsp.workbench.bench import BenchReport

_MARKS = {True: ("met", "green"), False: ("missed", "red"), None: ("undecided", "yellow")}


@click.command()
@click.option(
    "--suite",
    type=click.Choice(["nkibench"]),
    default="nkibench",
    show_default=True,
    help="Which measured kernels.",
)
@click.option("--only", default="", metavar="A,B", help="Only these kernels.")
@click.option(
    "--fidelity",
    "checkout",
    type=click.Path(path_type=Path),
    metavar="CHECKOUT",
    help="Compare simulated with measured figures. CHECKOUT: a clone of zhang677/AccelOpt.",
)
@click.option(
    "--sdk",
    type=click.Path(path_type=Path),
    help="A clone of aws-neuron/aws-neuron-sdk, for the kernels of its tutorials.",
)
@click.option(
    "--sdk-legacy",
    type=click.Path(path_type=Path),
    help="The same at tag v2.26.0, for those of its legacy tutorials.",
)
@click.option(
    "--measured",
    type=click.Path(path_type=Path),
    help="File of your own measured kernels, with paths from CHECKOUT.",
)
@click.option(
    "--ablation", is_flag=True, help="Also switch off each rule, and change each constant."
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write plots as SVG to this folder. Needs matplotlib.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def bench(
    suite: str,
    only: str,
    checkout: Path | None,
    sdk: Path | None,
    sdk_legacy: Path | None,
    measured: Path | None,
    ablation: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare the simulator with kernels measured on hardware.

    The package has the published figures; the kernels are in the repositories that published
    them, of which you name working copies. Exit status 1 means that a criterion was missed.

    \b
    git clone https://github.com/zhang677/AccelOpt
    accelopt bench --fidelity AccelOpt
    """
    from accelopt_lsp.cli_output import console, progress_line
    from accelopt_lsp.workbench.bench import BenchRequest, compare_measured

    if checkout is None:
        fail("bench compares with measured kernels: name a clone of AccelOpt with --fidelity")
    request = BenchRequest(
        checkout=checkout,
        sdk=sdk,
        sdk_legacy=sdk_legacy,
        only=tuple(filter(None, (name.strip() for name in only.split(",")))),
        measured=measured,
    )
    with progress_line(not as_json) as progress:
        report: BenchReport = run_async(compare_measured(request, progress))
    switched: AblationReport | None = None
    if ablation:
        from accelopt_lsp.workbench.ablation import ablate

        with progress_line(not as_json) as progress:
            switched = run_async(ablate(request, progress))
    if plot is not None:
        from accelopt_lsp.workbench.bench_plots import write_plots

        with usage_errors():
            written = write_plots(report.rows, plot, switched)
        for path in written:
            click.echo(f"wrote {path}", err=True)
    if as_json:
        data: dict[str, Any] = {"suite": suite, **report.to_json()}
        data["ablation"] = None if switched is None else switched.to_json()
        print_json(data)
    else:
        show_bench(console(), report)
        if switched is not None:
            show_ablation(console(), switched)
    if not report.met:
        raise SystemExit(FINDINGS)


def show_bench(out: Console, report: BenchReport) -> None:
    """Latencies, counters, and what was to be reached."""
    for name, rows in report.groups():
        out.print(_latencies(name, rows, report.summaries()[name]))
        counters = _counters(rows)
        if counters is not None:
            out.print(counters)
    out.print(_criteria(report.criteria))


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.1%}"


def _latencies(name: str, rows: Sequence[Comparison], summary: Summary) -> Table:
    table = Table(title=f"Latency: {name}", title_justify="left", box=None, pad_edge=False)
    table.add_column("kernel")
    for title in ("measured ms", "simulated ms", "error", "80 % interval ms"):
        table.add_column(title, justify="right")
    table.add_column("holds it")
    table.add_column("bound")
    for row in rows:
        measured = row.measured
        if row.latency_ms is None:
            failure = Text(row.failure or "no latency", "red")
            table.add_row(measured.kernel, f"{measured.measured_ms:.3f}", failure)
            continue
        span = row.uncertainty
        interval = "" if span is None else f"{span.low_ms:.3f} to {span.high_ms:.3f}"
        table.add_row(
            measured.kernel,
            f"{measured.measured_ms:.3f}",
            f"{row.latency_ms:.3f}",
            _percent(row.error),
            interval,
            {True: "yes", False: "no", None: ""}[row.inside],
            "" if row.bound is None else row.bound.value,
        )
    table.caption_justify = "left"
    table.caption = summary_text(summary)
    return table


def summary_text(summary: Summary) -> str:
    """One line on the errors of several kernels."""
    if summary.mean is None or summary.median is None or summary.largest is None:
        return f"no latency for any of {summary.total} kernels"
    text = (
        f"{summary.count} of {summary.total} kernels: absolute error {summary.mean:.1%} in the "
        f"mean, {summary.median:.1%} in the median, {summary.largest:.1%} at most"
    )
    if summary.spearman is not None:
        text += f"; Spearman {summary.spearman:.3f}"
    return f"{text}; {summary.inside} intervals hold the measured latency"


_COLUMNS = {
    "hbm_read_bytes": ("HBM read MB", 1e-6),
    "hbm_write_bytes": ("HBM write MB", 1e-6),
    "spill_save_bytes": ("saved MB", 1e-6),
    "spill_reload_bytes": ("re-loaded MB", 1e-6),
    "hardware_flops": ("GFLOP", 1e-9),
    "transpose_flops": ("transp. GFLOP", 1e-9),
    "vector_engine_active_time_percent": ("Vector %", 100.0),
    "scalar_engine_active_time_percent": ("Scalar %", 100.0),
    "gpsimd_engine_active_time_percent": ("GpSimd %", 100.0),
}


def _counters(rows: Sequence[Comparison]) -> Table | None:
    """Counters, measured / simulated; None if none were measured."""
    names = [n for n in _COLUMNS if any(n in r.measured.counters for r in rows)]
    if not names:
        return None
    table = Table(
        title="Counters: simulated / measured", title_justify="left", box=None, pad_edge=False
    )
    table.add_column("kernel")
    for name in names:
        table.add_column(_COLUMNS[name][0], justify="right")
    for row in rows:
        cells = []
        for name in names:
            scale = _COLUMNS[name][1]
            given, found = row.measured.counters.get(name), row.counters.get(name)
            if given is None:
                cells.append("")
            else:
                left = "?" if found is None else _short(found * scale)
                cells.append(f"{left} / {_short(given * scale)}")
        table.add_row(row.measured.kernel, *cells)
    return table


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _criteria(found: Sequence[Criterion]) -> Table:
    table = Table(title="Criteria", title_justify="left", box=None, pad_edge=False)
    for title in ("", "criterion", "required", "found", "missed by"):
        table.add_column(title)
    for criterion in found:
        mark, style = _MARKS[criterion.met]
        table.add_row(
            Text(mark, style),
            criterion.name,
            criterion.required,
            criterion.found,
            ", ".join(criterion.misses),
        )
    return table


def show_ablation(out: Console, report: AblationReport) -> None:
    """The error of each kernel without each rule, and the mean error by constant."""
    rules = report.effective
    for start in range(0, max(len(rules), 1), _RULES_A_TABLE):
        out.print(_rules(report, rules[start : start + _RULES_A_TABLE]))
    for row in rules:
        out.print(f"{row.name}: {row.title}", markup=False)
    if report.idle:
        names = ", ".join(f"{row.name} ({row.title})" for row in report.idle)
        out.print(f"Without effect on these kernels: {names}", markup=False)
    out.print(_constants(report))


_RULES_A_TABLE = 7


def _rules(report: AblationReport, rules: Sequence[AblationRow]) -> Table:
    table = Table(
        title="Ablation: latency error in %", title_justify="left", box=None, pad_edge=False
    )
    rows = (report.model, *rules)
    table.add_column("kernel", no_wrap=True)
    table.add_column("model", justify="right")
    for row in rules:
        table.add_column(f"no {row.name}", justify="right")
    for kernel in report.kernels:
        table.add_row(kernel, *(_points(row.errors[kernel]) for row in rows))
    table.add_row("mean of absolute", *(_points(row.mean, "") for row in rows))
    table.add_row("median of absolute", *(_points(row.median, "") for row in rows))
    return table


def _points(value: float | None, sign: str = "+") -> str:
    return "" if value is None else f"{100 * value:{sign}.1f}"


def _constants(report: AblationReport) -> Table:
    table = Table(
        title=f"Sensitivity: mean error in %, {_points(report.model.mean, '')} as it is",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    table.add_column("constant")
    for title in ("-10 %", "+10 %", "most affected kernel"):
        table.add_column(title, justify="right")
    for name, (less, more) in report.constants.items():
        table.add_row(
            name, _points(less.mean, ""), _points(more.mean, ""), _most(report.model, less, more)
        )
    return table


def _most(model: AblationRow, *rows: AblationRow) -> str:
    """The kernel whose latency moves most, and by how much."""
    moved: dict[str, float] = {}
    for row in rows:
        for kernel, error in row.errors.items():
            before = model.errors[kernel]
            if error is not None and before is not None:
                change = (1 + error) / (1 + before) - 1
                if abs(change) > abs(moved.get(kernel, 0.0)):
                    moved[kernel] = change
    if not moved:
        return "none"
    kernel = max(moved, key=lambda k: abs(moved[k]))
    return f"{kernel} {moved[kernel]:+.1%}"
