"""How far off such figures were on kernels with a measured latency.

The calibration file holds, for each measured kernel, what this version of the model predicts, and
what it predicts when its constants are fitted without the kernel's family (``held_out_ms``): the
residuals of the latter are those of a kernel that nobody has measured. The interval around a
prediction comes from residuals of kernels with the same target, dialect and kind of bound, as far
as there are any, and from all others of that target and dialect.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from math import exp, log, sqrt

from attrs import frozen

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.profile import Bound, Uncertainty

LEVEL = 0.8
SAME_TRACE_MS = (0.681, 0.579)
"""Measured latencies of two kernels with one and the same instruction trace."""
FLOOR = log(SAME_TRACE_MS[0] / SAME_TRACE_MS[1]) / 2
"""Least half width of an interval, as a logarithm: the best prediction for such a pair is their
geometric mean, and off by this much for both."""
MIN_KERNELS = 3
"""Fewer kernels say nothing about the spread. Versions of one kernel count once."""
SERIES_WEIGHT = 2.0
"""All versions of one kernel together count as this many kernels."""
POOL_WEIGHT = 4.0
"""All kernels of the target and dialect, whatever bounds them, count as this many alike ones."""
WIDENING = 2.0
"""Factor on the spread outside the calibrated range."""
UNCALIBRATED = 0.187
"""Least spread for a target and dialect with fewer than :data:`MIN_KERNELS` measured kernels.
Source: root mean square of the logarithm of measured over predicted on the 14 NKIBench kernels,
with all constants at what was known before anything was measured (``priors.toml``)."""
RANGE = 3.0
"""The calibrated range ends at this factor below the shortest and above the longest latency."""
SPILL_MARGIN = 0.1
"""It ends this much above the largest share of spills in the traffic."""
_STUDENT = {
    1: 3.078, 2: 1.886, 3: 1.638, 4: 1.533, 5: 1.476, 6: 1.440, 7: 1.415, 8: 1.397, 9: 1.383,
    10: 1.372, 12: 1.356, 15: 1.341, 20: 1.325, 30: 1.310,
}  # fmt: skip
"""Two-sided 80 % quantiles of Student's t by degrees of freedom."""


@frozen(slots=True)
class Residual:
    """One kernel whose latency is known.

    Attributes:
        kernel: name.
        target, dialect: what it ran on and how it is written.
        family: kernels of its kind, left out together when constants are fitted for it.
        series: versions of one kernel have the same; None for a kernel of its own.
        bound: what limits it, by the model.
        spill_share: share of spills in its HBM traffic, by the model.
        measured_ms: latency on hardware in milliseconds.
        predicted_ms: by this version of the model.
        held_out_ms: with constants fitted without its family, or by this version where nothing
            was fitted to it; None if that was not computed.
    """

    kernel: str
    target: str
    dialect: str
    family: str
    series: str | None
    bound: str | None
    spill_share: float | None
    measured_ms: float
    predicted_ms: float
    held_out_ms: float | None

    @property
    def log_ratio(self) -> float:
        """Logarithm of measured over predicted without the kernel's family."""
        return log(self.measured_ms / (self.held_out_ms or self.predicted_ms))


@cache
def residuals() -> tuple[Residual, ...]:
    """The calibration data of this version."""
    text = files("accelopt_lsp.profiler").joinpath("data/calibration.json").read_text("utf-8")
    rows = json.loads(text)["residuals"]
    return tuple(Residual(**{name: row[name] for name in Residual.__annotations__}) for row in rows)


def interval(
    latency_ms: float,
    *,
    target: str,
    dialect: Dialect,
    bound: Bound | None,
    spill_share: float | None = None,
    rows: Sequence[Residual] | None = None,
) -> Uncertainty:
    """80 % interval around a predicted latency.

    Args:
        latency_ms: the prediction in milliseconds.
        target, dialect, bound: of the kernel.
        spill_share: share of spills in its HBM traffic; None if unknown.
        rows: kernels with a known latency; by default those of this version.
    """
    known = residuals() if rows is None else tuple(rows)
    near = [r for r in known if r.target == target and r.dialect == dialect.value]
    alike = [r for r in near if bound is not None and r.bound == bound.value]
    extrapolated = bool(
        _kernels(alike) < MIN_KERNELS
        or not _in_range(latency_ms, near)
        or _spills_more(spill_share, near)
    )
    calibrated = _kernels(near) >= MIN_KERNELS
    pool = near if calibrated else list(known)
    least = 0.0 if calibrated else UNCALIBRATED
    half = WIDENING if not pool else _half_width(alike, pool, extrapolated, least)
    return Uncertainty(
        low_ms=latency_ms * exp(-half),
        high_ms=latency_ms * exp(half),
        level=LEVEL,
        extrapolated=extrapolated,
    )


def _half_width(
    alike: Sequence[Residual], pool: Sequence[Residual], extrapolated: bool, least: float
) -> float:
    """Half width of the interval of the logarithm; ``least`` is the least spread."""
    square, _ = _mean_square(pool)
    own_square, own_weight = _mean_square(alike)
    weight = own_weight + POOL_WEIGHT
    spread = sqrt((own_square * own_weight + square * POOL_WEIGHT) / weight)
    if extrapolated:
        spread *= WIDENING
    return max(FLOOR, student(weight) * max(spread, least))


def student(freedom: float) -> float:
    """Two-sided 80 % quantile of Student's t, for at least this many degrees of freedom."""
    return _STUDENT[max((n for n in _STUDENT if n <= freedom), default=1)]


def _weights(rows: Sequence[Residual]) -> list[float]:
    sizes = Counter(r.series for r in rows if r.series is not None)
    return [1.0 if r.series is None else min(1.0, SERIES_WEIGHT / sizes[r.series]) for r in rows]


def _mean_square(rows: Sequence[Residual]) -> tuple[float, float]:
    """Weighted mean square of the residuals, and the sum of the weights."""
    weights = _weights(rows)
    total = sum(weights)
    if not total:
        return 0.0, 0.0
    square = sum(w * r.log_ratio**2 for w, r in zip(weights, rows, strict=True))
    return square / total, total


def _kernels(rows: Sequence[Residual]) -> int:
    """Number of kernels; versions of one count once."""
    return len({r.series or r.kernel for r in rows})


def _in_range(latency_ms: float, rows: Sequence[Residual]) -> bool:
    if not rows:
        return False
    shortest = min(r.measured_ms for r in rows) / RANGE
    return shortest <= latency_ms <= max(r.measured_ms for r in rows) * RANGE


def _spills_more(share: float | None, rows: Sequence[Residual]) -> bool:
    """Whether a share of spills lies beyond those that are known."""
    known = [r.spill_share for r in rows if r.spill_share is not None]
    return share is not None and bool(known) and share > max(known) + SPILL_MARGIN


@frozen(slots=True)
class Covered:
    """A measured kernel, and the interval that all kernels of other families give for it."""

    residual: Residual
    interval: Uncertainty

    @property
    def inside(self) -> bool:
        return self.interval.low_ms <= self.residual.measured_ms <= self.interval.high_ms


def coverage(rows: Sequence[Residual] | None = None) -> tuple[Covered, ...]:
    """Whether intervals hold what they should: each kernel's, from other families alone.

    Both the prediction and its interval come without the kernel's family. Of 80 % intervals,
    about 80 % should hold the measured latency.
    """
    known = residuals() if rows is None else tuple(rows)
    found = []
    for row in known:
        others = [r for r in known if r.family != row.family or r.target != row.target]
        found.append(
            Covered(
                row,
                interval(
                    row.held_out_ms or row.predicted_ms,
                    target=row.target,
                    dialect=Dialect(row.dialect),
                    bound=None if row.bound is None else Bound(row.bound),
                    spill_share=row.spill_share,
                    rows=others,
                ),
            )
        )
    return tuple(found)
