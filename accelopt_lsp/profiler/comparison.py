"""Simulated against measured: errors, rank order, and what a model that can be trusted reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from statistics import mean, median

from attrs import field, frozen

from accelopt_lsp.nki.profile import Bound, Uncertainty
from accelopt_lsp.nki.traffic import spill_share
from accelopt_lsp.profiler.measured import MeasuredKernel, Use

MEAN_LIMIT, MEDIAN_LIMIT, LARGEST_LIMIT = 0.04, 0.035, 0.10
CHECK_LIMIT = 0.15
RANK_LIMIT = 0.98
BYTES_LIMIT, SPILLING_BYTES_LIMIT = 0.05, 0.25
FLOPS_LIMIT = 0.01
SHARE_LIMIT = 0.06
SPILLS = 0.05
"""Share of the traffic above which a kernel counts as spilling."""
SPILLS_NOT = 0.01
"""A kernel that does not spill may be said to spill this share, not more."""
RANKABLE = 0.05
"""Latencies that differ by less cannot be ranked."""


def rankable(first_ms: float | None, second_ms: float | None) -> bool | None:
    """Whether two simulated latencies say which kernel is faster; None if one is unknown."""
    if first_ms is None or second_ms is None:
        return None
    low, high = sorted((first_ms, second_ms))
    return high > low * (1 + RANKABLE)


ENGINE_SHARES = tuple(
    f"{engine}_engine_active_time_percent" for engine in ("tensor", "vector", "scalar", "gpsimd")
)


@frozen(slots=True)
class Comparison:
    """One kernel: what was measured and what the simulator says.

    Attributes:
        measured: the kernel.
        latency_ms: simulated; None if it failed or an instruction has no known cost.
        bound: what limits it, by the model.
        counters: simulated, by neuron-profile's summary names.
        uncertainty: interval around the latency.
        failure: why there is no latency.
    """

    measured: MeasuredKernel
    latency_ms: float | None
    bound: Bound | None = None
    counters: Mapping[str, float | None] = field(factory=dict)
    uncertainty: Uncertainty | None = None
    failure: str | None = None

    @property
    def error(self) -> float | None:
        """Relative error of the latency."""
        if self.latency_ms is None:
            return None
        return self.latency_ms / self.measured.measured_ms - 1

    @property
    def inside(self) -> bool | None:
        """Whether the interval holds the measured latency."""
        if self.uncertainty is None:
            return None
        return self.uncertainty.low_ms <= self.measured.measured_ms <= self.uncertainty.high_ms

    def counter_error(self, name: str) -> float | None:
        """Relative error of a counter; for shares of time, the difference.

        None where either is unknown; infinite where something was found and nothing measured.
        """
        measured, found = self.measured.counters.get(name), self.counters.get(name)
        if measured is None or found is None:
            return None
        if name.endswith("_percent"):
            return found - measured
        if measured == 0:
            return 0.0 if found == 0 else float("inf")
        return found / measured - 1

    @property
    def bytes_error(self) -> float | None:
        """Relative error of all HBM traffic."""
        names = ("hbm_read_bytes", "hbm_write_bytes")
        measured = [self.measured.counters.get(n) for n in names]
        found = [self.counters.get(n) for n in names]
        if None in measured or None in found:
            return None
        return sum(v or 0.0 for v in found) / sum(v or 0.0 for v in measured) - 1

    @property
    def spill_share(self) -> float | None:
        """Share of the simulated traffic that is spills."""
        return spill_share(self.counters)


@frozen(slots=True)
class Summary:
    """Errors of several kernels, as absolute values.

    Attributes:
        count: kernels with a latency.
        total: all kernels.
        mean, median, largest: of the relative errors; None without any.
        spearman: rank correlation of simulated and measured latencies.
        inside: kernels whose interval holds the measured latency.
    """

    count: int
    total: int
    mean: float | None
    median: float | None
    largest: float | None
    spearman: float | None
    inside: int


def summarize(rows: Sequence[Comparison]) -> Summary:
    """Summary of a set of kernels."""
    known = [r for r in rows if r.latency_ms is not None]
    errors = [abs(r.error) for r in known if r.error is not None]
    return Summary(
        count=len(known),
        total=len(rows),
        mean=mean(errors) if errors else None,
        median=median(errors) if errors else None,
        largest=max(errors) if errors else None,
        spearman=spearman(
            [r.latency_ms or 0.0 for r in known], [r.measured.measured_ms for r in known]
        ),
        inside=sum(r.inside is True for r in rows),
    )


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for position in range(start, end + 1):
            found[order[position]] = (start + end) / 2 + 1
        start = end + 1
    return found


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation; None for fewer than three pairs or equal values only."""
    if len(first) < 3:
        return None
    a, b = ranks(first), ranks(second)
    middle = (len(a) + 1) / 2
    covariance = sum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    spread = sum((x - middle) ** 2 for x in a) * sum((y - middle) ** 2 for y in b)
    return covariance / spread**0.5 if spread else None


@frozen(slots=True)
class Pair:
    """Two versions of one kernel.

    Attributes:
        step: by how much the slower one is slower, as measured (0.1: 10 %).
        kept: whether the simulator puts them in the same order.
    """

    first: str
    second: str
    step: float
    kept: bool


def pairs(rows: Iterable[Comparison]) -> tuple[Pair, ...]:
    """All pairs of versions in the same series."""
    found = []
    for a, b in combinations([r for r in rows if r.latency_ms is not None], 2):
        if a.measured.series is None or a.measured.series != b.measured.series:
            continue
        low, high = sorted((a, b), key=lambda r: r.measured.measured_ms)
        step = high.measured.measured_ms / low.measured.measured_ms - 1
        kept = (low.latency_ms or 0.0) < (high.latency_ms or 0.0)
        found.append(Pair(a.measured.kernel, b.measured.kernel, step, kept or step == 0))
    return tuple(found)


@frozen(slots=True)
class Criterion:
    """Something that a comparison must reach.

    Attributes:
        name: what is compared.
        required: what is asked for, in words.
        found: what there is, in words.
        met: None where nothing was measured that could decide it.
        misses: kernels that do not reach it, each with its figure.
    """

    name: str
    required: str
    found: str
    met: bool | None
    misses: tuple[str, ...] = ()


def criteria(rows: Sequence[Comparison]) -> tuple[Criterion, ...]:
    """All criteria that these kernels can decide."""
    fitted = [r for r in rows if r.measured.use is Use.CALIBRATION]
    checked = [r for r in rows if r.measured.use is Use.CHECK]
    found: list[Criterion] = []
    if fitted:
        found += _latency(summarize(fitted))
        clean = [r for r in fitted if r.measured.spill_share == 0]
        spilling = [r for r in fitted if (r.measured.spill_share or 0) > 0]
        found += [
            _each("HBM bytes without spills", clean, _bytes, BYTES_LIMIT),
            _each("HBM bytes with spills", spilling, _bytes, SPILLING_BYTES_LIMIT),
            _spills(fitted),
            _each("hardware_flops", fitted, _counter("hardware_flops"), FLOPS_LIMIT),
            _each("transpose_flops", fitted, _counter("transpose_flops"), FLOPS_LIMIT),
        ]
        found += [
            _each(name.replace("_percent", ""), fitted, _counter(name), SHARE_LIMIT, points=True)
            for name in ENGINE_SHARES
            if any(name in r.measured.counters for r in fitted)
        ]
    for series in sorted({r.measured.series or "other kernels" for r in checked}):
        members = [r for r in checked if (r.measured.series or "other kernels") == series]
        found.append(_each(f"latency, {series}", members, lambda r: r.error, CHECK_LIMIT))
        found.append(_order(series, members))
    return tuple(found)


def _latency(summary: Summary) -> list[Criterion]:
    whole = summary.count == summary.total
    found = []
    for name, value, limit in (
        ("mean", summary.mean, MEAN_LIMIT),
        ("median", summary.median, MEDIAN_LIMIT),
        ("largest", summary.largest, LARGEST_LIMIT),
    ):
        met = None if value is None else value <= limit
        found.append(
            Criterion(
                f"latency error, {name}",
                f"at most {limit:.1%}",
                "unknown" if value is None else f"{value:.1%}",
                met if whole else False,
                () if whole else (f"{summary.total - summary.count} kernels without a latency",),
            )
        )
    rank = summary.spearman
    found.append(
        Criterion(
            "latency, Spearman's rank correlation",
            f"at least {RANK_LIMIT}",
            "unknown" if rank is None else f"{rank:.3f}",
            None if rank is None else rank >= RANK_LIMIT and whole,
        )
    )
    return found


def _bytes(row: Comparison) -> float | None:
    return row.bytes_error


def _counter(name: str) -> Callable[[Comparison], float | None]:
    return lambda row: row.counter_error(name)


def _each(
    name: str,
    rows: Sequence[Comparison],
    error: Callable[[Comparison], float | None],
    limit: float,
    *,
    points: bool = False,
) -> Criterion:
    """Every kernel within a limit. A kernel that failed does not reach it."""

    def text(value: float) -> str:
        return f"{100 * value:+.1f} points" if points else f"{value:+.1%}"

    errors = {r.measured.kernel: error(r) for r in rows}
    known = {k: v for k, v in errors.items() if v is not None}
    misses = [f"{k} {text(v)}" for k, v in known.items() if abs(v) > limit]
    misses += [f"{r.measured.kernel} failed" for r in rows if r.failure is not None]
    worst = max(known.values(), key=abs, default=None)
    return Criterion(
        name,
        f"each within {100 * limit:g} {'points' if points else '%'}",
        "unknown" if worst is None else f"{text(worst)} at most, {len(known)} kernels",
        not misses if known or misses else None,
        tuple(misses),
    )


def _spills(rows: Sequence[Comparison]) -> Criterion:
    """Who spills much is found, and who does not spill is not said to."""
    misses = []
    decided = found = 0
    for row in rows:
        measured, simulated = row.measured.spill_share, row.spill_share
        if measured is None:
            continue
        name = row.measured.kernel
        if simulated is None:
            misses.append(f"{name} unknown")
            continue
        if measured > SPILLS:
            decided += 1
            found += simulated > SPILLS
            if simulated <= SPILLS:
                misses.append(f"{name} {simulated:.1%} instead of {measured:.1%}")
        elif measured == 0:
            decided += 1
            if simulated > SPILLS_NOT:
                misses.append(f"{name} {simulated:.1%} instead of none")
    return Criterion(
        "kernels that spill",
        f"those with over {SPILLS:.0%} of their traffic are found, and none that does not spill",
        f"{found} found, {decided} decided",
        not misses if decided or misses else None,
        tuple(misses),
    )


def _order(series: str, rows: Sequence[Comparison]) -> Criterion:
    counted = [p for p in pairs(rows) if p.step > RANKABLE]
    misses = [f"{p.first} and {p.second} ({p.step:.1%} apart)" for p in counted if not p.kept]
    return Criterion(
        f"order, {series}",
        f"kept where measurements differ by over {RANKABLE:.0%}",
        f"{len(counted) - len(misses)} of {len(counted)} pairs",
        not misses if counted else None,
        tuple(misses),
    )
