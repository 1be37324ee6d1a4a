"""Write the figures and plots of ``docs/trust.md``.

    python docs/build_trust.py CHECKOUT [--sdk SDK] [--sdk-legacy SDK] [--skip PART,...]

CHECKOUT is a clone of github.com/zhang677/AccelOpt, the other two are clones of
github.com/aws-neuron/aws-neuron-sdk, current and at tag v2.26.0. Parts: ``calibration`` (fits
without each family; writes the residuals that intervals come from), ``fidelity`` (the comparison,
its plots, the coverage of intervals) and ``ablation``. What is skipped stays as it is.

The page has marked blocks, each between ``<!-- NAME -->`` and ``<!-- end NAME -->``.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Sequence
from math import log
from pathlib import Path

from attrs import evolve

from accelopt_lsp.nki.traffic import spill_share
from accelopt_lsp.profiler.comparison import Comparison, pairs, summarize
from accelopt_lsp.profiler.simulator.timeline.uncertainty import coverage, interval, residuals
from accelopt_lsp.workbench.ablation import AblationReport, ablate
from accelopt_lsp.workbench.bench import BenchReport, BenchRequest, compare_measured
from accelopt_lsp.workbench.bench_plots import write_plots
from accelopt_lsp.workbench.calibration import Calibration, calibrate
from accelopt_lsp.workbench.calibration_store import check_rows, write_residuals, write_rows
from accelopt_lsp.workbench.requests import RequestError

PAGE = Path(__file__).with_name("trust.md")
IMAGES = Path(__file__).with_name("images")
PARTS = ("calibration", "fidelity", "ablation")
STEPS = ((0.0, 0.05), (0.05, 0.1), (0.1, 0.25), (0.25, float("inf")))
"""Ranges of the difference between two versions of a kernel."""


def with_block(text: str, name: str, content: str) -> str:
    """The page with another content of one of its blocks.

    Raises:
        ValueError: it has no such block.
    """
    pattern = rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end {re.escape(name)} -->)"
    if not re.search(pattern, text, re.DOTALL):
        raise ValueError(f"the page has no block {name}")
    return re.sub(
        pattern, lambda m: f"{m[1]}{content.strip()}\n{m[2]}", text, count=1, flags=re.DOTALL
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """A Markdown table; all but the first columns are flush right."""
    marks = ["---"] * left + ["--:"] * (len(head) - left)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, marks, *rows))


def share(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value:.{digits}%}".replace("%", " %")


def signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.1%}".replace("%", " %")


def latencies(report: BenchReport) -> str:
    """Every kernel's latency, group by group."""
    parts = []
    for name, rows in report.groups():
        cells = []
        for r in rows:
            span = r.uncertainty
            cells.append(
                (
                    r.measured.kernel,
                    "" if r.bound is None else r.bound.value,
                    f"{r.measured.measured_ms:.3f}",
                    "failed" if r.latency_ms is None else f"{r.latency_ms:.3f}",
                    signed(r.error),
                    "" if span is None else f"{span.low_ms:.3f} to {span.high_ms:.3f}",
                )
            )
        found = summarize(rows)
        summary = f"{found.count} of {found.total} kernels"
        if found.mean is not None:
            summary += (
                f": absolute error {share(found.mean)} in the mean, {share(found.median)} in the "
                f"median, {share(found.largest)} at most"
            )
        if found.spearman is not None:
            summary += f"; Spearman's rank correlation {found.spearman:.3f}"
        head = ("kernel", "bound", "measured ms", "simulated ms", "error", "80 % interval ms")
        parts.append(f"**{name.capitalize()}**\n\n{table(head, cells, left=2)}\n\n{summary}.")
    return "\n\n".join(parts)


def verdicts(report: BenchReport) -> str:
    """What was to be reached."""
    words = {True: "met", False: "missed", None: "undecided"}
    rows = [
        (c.name, c.required, c.found, words[c.met], "; ".join(c.misses)) for c in report.criteria
    ]
    text = table(("criterion", "required", "found", "", "missed by"), rows, left=5)
    return re.sub(r"(?<=\d)%", " %", text)


def order(rows: Sequence[Comparison]) -> str:
    """How often two versions of a kernel come out in the right order, by how far apart they are."""
    found = pairs(rows)
    cells = []
    for low, high in STEPS:
        some = [p for p in found if low <= p.step < high]
        title = f"{low:.0%} to {high:.0%}" if high < 9 else f"over {low:.0%}"
        kept = sum(p.kept for p in some)
        cells.append((title.replace("%", " %"), str(len(some)), str(kept)))
    return table(("measured difference", "pairs", "order kept"), cells)


def covered() -> str:
    """Whether intervals hold what they should, each without its kernel's family."""
    found = coverage()
    cells = []
    groups: dict[str, list[bool]] = {}
    for c in found:
        title = c.residual.series or f"{c.residual.family} (calibration kernels)"
        groups.setdefault(title, []).append(c.inside)
    for title, inside in groups.items():
        cells.append((title, str(len(inside)), str(sum(inside))))
    fitted = [c for c in found if c.residual.series is None]
    widths = sorted(log(c.interval.high_ms / c.interval.low_ms) / 2 for c in fitted)
    middle = widths[len(widths) // 2] if widths else 0.0
    within = sum(c.inside for c in fitted)
    text = (
        f"{within} of the {len(fitted)} calibration kernels, and {sum(c.inside for c in found)} of "
        f"all {len(found)}, lie within an 80 % interval that their family had no part in. Half of "
        f"these intervals are narrower than ±{middle:.0%}.".replace("%", " %").replace("  %", " %")
    )
    return f"{table(('kernels', 'number', 'held by their interval'), cells)}\n\n{text}"


def families(found: Calibration) -> str:
    """The error of every kernel with and without its family in the fit."""
    rows = [
        (
            p.kernel.family,
            p.kernel.kernel,
            signed(p.error(p.present)),
            signed(p.error(p.fitted)),
            signed(p.error(p.held_out)),
        )
        for p in sorted(found.predictions, key=lambda p: (p.kernel.family, p.kernel.kernel))
    ]
    for family in [*found.without, None]:
        cells = [found.mean_error(w, family) for w in ("present", "fitted", "held_out")]
        rows.append((family or "**all**", "mean of absolute errors", *(share(c) for c in cells)))
    head = ("family", "kernel", "this version", "fitted to all", "fitted without the family")
    return table(head, rows, left=2)


def constants(found: Calibration) -> str:
    """Every calibrated constant."""
    rows = []
    for prior in found.priors:
        others = [values[prior.name] for values in found.without.values()]
        span = f"{min(others):.3g} to {max(others):.3g}" if others else ""
        rows.append(
            (
                f"`{prior.name}`",
                "active time" if prior.name in found.engine_fitted else "latency",
                f"{found.target[prior.name]:.4g}",
                f"{prior.value:.4g}",
                f"{found.constants[prior.name]:.4g}",
                span,
            )
        )
    head = ("constant", "from", "this version", "prior", "fitted to all", "without a family")
    return table(head, rows, left=2)


def rules(report: AblationReport) -> str:
    """The model without each rule."""
    columns = (report.model, *report.effective)
    head = ("kernel", "model", *(f"no `{r.name}`" for r in report.effective))
    rows = [
        (
            kernel,
            *(f"{100 * e:+.1f}" if (e := c.errors[kernel]) is not None else "" for c in columns),
        )
        for kernel in report.kernels
    ]
    for title, name in (("mean of absolute", "mean"), ("median of absolute", "median")):
        values = [getattr(c, name) for c in columns]
        rows.append((f"**{title}**", *("" if v is None else f"{100 * v:.1f}" for v in values)))
    lines = [f"- `{r.name}`: {r.title}" for r in report.effective]
    if report.idle:
        names = ", ".join(f"`{r.name}` ({r.title})" for r in report.idle)
        lines.append(f"- without effect on these kernels: {names}")
    return f"{table(head, rows)}\n\n" + "\n".join(lines)


def sensitivity(report: AblationReport) -> str:
    """The mean error with each constant a tenth smaller and larger."""
    rows = []
    for name, both in report.constants.items():
        values = ["" if r.mean is None else f"{100 * r.mean:.1f}" for r in both]
        rows.append((f"`{name}`", *values))
    mean = report.model.mean
    text = (
        "" if mean is None else f"Mean error in %; {100 * mean:.1f} with the constants as they are."
    )
    return f"{text}\n\n{table(('constant', '-10 %', '+10 %'), rows)}"


def with_intervals(report: BenchReport) -> BenchReport:
    """The comparison with intervals from residuals that were written meanwhile."""
    residuals.cache_clear()
    rows = tuple(
        r
        if r.latency_ms is None
        else evolve(
            r,
            uncertainty=interval(
                r.latency_ms,
                target=r.measured.target,
                dialect=r.measured.dialect,
                bound=r.bound,
                spill_share=spill_share(r.counters),
            ),
        )
        for r in report.rows
    )
    return evolve(report, rows=rows)


async def build(request: BenchRequest, skipped: Sequence[str]) -> dict[str, str]:
    """All blocks of the parts that are wanted, by name."""
    blocks: dict[str, str] = {}
    report: BenchReport | None = None
    switched: AblationReport | None = None
    if "fidelity" not in skipped:
        report = await compare_measured(request)
        write_rows(check_rows(r for r in report.rows if r.measured.series is not None))
    if "calibration" not in skipped:
        found = await calibrate(request)
        write_residuals(found)
        blocks |= {"families": families(found), "constants": constants(found)}
    if "ablation" not in skipped:
        switched = await ablate(request)
        blocks |= {"ablation": rules(switched), "sensitivity": sensitivity(switched)}
    if report is not None:
        report = with_intervals(report)
        blocks |= {
            "latencies": latencies(report),
            "criteria": verdicts(report),
            "order": order(report.rows),
            "coverage": covered(),
        }
        write_plots(report.rows, IMAGES, switched)
    return blocks


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Write the figures of docs/trust.md.")
    parser.add_argument("checkout", type=Path, help="clone of zhang677/AccelOpt")
    parser.add_argument("--sdk", type=Path, help="clone of aws-neuron-sdk")
    parser.add_argument("--sdk-legacy", type=Path, help="the same at tag v2.26.0")
    parser.add_argument("--skip", default="", help=f"parts to leave: {', '.join(PARTS)}")
    options = parser.parse_args(arguments)
    skipped = tuple(filter(None, options.skip.split(",")))
    if set(skipped) - set(PARTS):
        parser.error(f"unknown part; known: {', '.join(PARTS)}")
    request = BenchRequest(options.checkout, sdk=options.sdk, sdk_legacy=options.sdk_legacy)
    try:
        blocks = asyncio.run(build(request, skipped))
    except RequestError as error:
        print(error, file=sys.stderr)
        return 2
    text = PAGE.read_text("utf-8")
    for name, content in blocks.items():
        text = with_block(text, name, content)
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
