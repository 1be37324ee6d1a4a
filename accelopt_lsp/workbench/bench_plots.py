"""Plots of simulated against measured latencies. Matplotlib is an extra, loaded when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelopt_lsp.profiler.comparison import Comparison
from accelopt_lsp.profiler.measured import Use
from accelopt_lsp.workbench.requests import RequestError

if TYPE_CHECKING:
    from accelopt_lsp.workbench.ablation import AblationReport

BAND = 0.1
"""Relative error that the plots mark."""
_SETTINGS: Any = {
    # Text stays text and ids repeat, so that files are small and the same every time.
    "svg.fonttype": "none",
    "svg.hashsalt": "accelopt",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_COLORS = {
    "tensor": "#1f77b4",
    "vector": "#d62728",
    "scalar": "#9467bd",
    "gpsimd": "#8c564b",
    "dma": "#2ca02c",
    "latency": "#7f7f7f",
}


def write_plots(
    rows: Sequence[Comparison], folder: Path, ablation: AblationReport | None = None
) -> tuple[Path, ...]:
    """Write SVG files; returns their paths.

    Raises:
        RequestError: matplotlib is not installed, or the folder cannot be written.
    """
    try:
        import matplotlib

        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError:
        raise RequestError("--plot needs matplotlib: pip install 'accelopt-lsp[plots]'") from None
    known = [r for r in rows if r.latency_ms is not None]
    if not known:
        raise RequestError("there is no latency to plot")
    figures = {"predicted-measured.svg": _scatter, "residuals.svg": _residuals}
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(_SETTINGS):
            for name, draw in figures.items():
                written.append(_save(pyplot, draw(pyplot, known), folder / name))
            if ablation is not None:
                figure = _ablation(pyplot, ablation)
                written.append(_save(pyplot, figure, folder / "ablation.svg"))
    except OSError as error:
        raise RequestError(f"cannot write {folder}: {error}") from None
    return tuple(written)


def _save(pyplot: Any, figure: Any, path: Path) -> Path:
    figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
    # Matplotlib ends lines with spaces.
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n", "utf-8")
    return path


def _bound(row: Comparison) -> str:
    return "latency" if row.bound is None else row.bound.value


def _scatter(pyplot: Any, rows: Sequence[Comparison]) -> Any:
    """Both axes logarithmic; the band holds errors of at most 10 %."""
    figure, axes = pyplot.subplots(figsize=(5.6, 5.0))
    values = [v for r in rows for v in (r.latency_ms or 0.0, r.measured.measured_ms)]
    low, high = min(values) / 1.3, max(values) * 1.3
    line = [low, high]
    axes.fill_between(
        line, [v * (1 - BAND) for v in line], [v * (1 + BAND) for v in line],
        color="#dddddd", linewidth=0, label=f"within {BAND:.0%}",
    )  # fmt: skip
    axes.plot(line, line, color="#999999", linewidth=0.8)
    seen = set()
    for row in rows:
        bound = _bound(row)
        fitted = row.measured.use is Use.CALIBRATION
        label = f"{bound}{'' if fitted else ', not fitted'}"
        axes.scatter(
            row.measured.measured_ms,
            row.latency_ms,
            s=22,
            marker="o" if fitted else "^",
            color=_COLORS[bound] if fitted else "none",
            edgecolors=_COLORS[bound],
            linewidths=0.9,
            label=None if label in seen else label,
            zorder=3,
        )
        seen.add(label)
    axes.set(
        xscale="log", yscale="log", xlim=(low, high), ylim=(low, high),
        xlabel="measured latency in ms", ylabel="simulated latency in ms",
    )  # fmt: skip
    axes.legend(frameon=False, fontsize=8)
    return figure


def _residuals(pyplot: Any, rows: Sequence[Comparison]) -> Any:
    """Error of each kernel, and where the interval says that the measured latency should be."""
    figure, axes = pyplot.subplots(figsize=(6.4, 0.6 + 0.2 * len(rows)))
    for place, row in enumerate(reversed(rows)):
        color = _COLORS[_bound(row)]
        latency = row.latency_ms or 0.0
        if row.uncertainty is not None:
            ends = (latency / row.uncertainty.high_ms - 1, latency / row.uncertainty.low_ms - 1)
            axes.plot([100 * e for e in ends], [place, place], color="#cccccc", linewidth=5)
        axes.plot(100 * (row.error or 0.0), place, "o", markersize=4, color=color)
    axes.axvline(0, color="#999999", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [r.measured.kernel for r in reversed(rows)])
    axes.set(xlabel="error of the simulated latency in %; grey: errors within its 80 % interval")
    return figure


def _ablation(pyplot: Any, report: AblationReport) -> Any:
    """Mean absolute error without each rule."""
    rows = [report.model, *report.effective]
    figure, axes = pyplot.subplots(figsize=(6.4, 0.8 + 0.25 * len(rows)))
    for place, row in enumerate(reversed(rows)):
        axes.barh(
            place,
            100 * (row.mean or 0.0),
            height=0.6,
            color="#1f77b4" if row is report.model else "#aec7e8",
        )
    titles = [report.model.title, *(f"without: {r.title}" for r in report.effective)]
    axes.set_yticks(range(len(rows)), titles[::-1])
    axes.set(xlabel="mean absolute latency error in %")
    return figure
