"""How far off such figures were on kernels with a measured latency.

The calibration file holds, for each kernel, what was measured and what this version of the
model predicts. The interval around a prediction comes from the residuals of kernels with the
same kind of bound, or from all of them where there are too few.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from math import exp, log, sqrt

from attrs import frozen

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.profile import Bound, Uncertainty

LEVEL = 0.8
FLOOR = 0.12
"""Standard error of the logarithm below which no interval goes: the constants were chosen on
the same kernels, and kernels with one and the same instruction stream were measured 15 % apart."""
MIN_KERNELS = 3
"""Fewer kernels with the same bound say nothing about the spread."""
WIDENING = 2.0
"""Factor on the spread outside the calibrated range."""
_STUDENT = {
    3: 1.638, 4: 1.533, 5: 1.476, 6: 1.440, 7: 1.415, 8: 1.397, 9: 1.383, 10: 1.372,
    11: 1.363, 12: 1.356, 13: 1.350, 14: 1.345,
}  # fmt: skip
"""Two-sided 80 % quantiles of Student's t by degrees of freedom."""


@frozen(slots=True)
class Residual:
    """One kernel whose latency is known.

    Attributes:
        kernel: name.
        target, dialect: what it ran on and how it is written.
        bound: what limits it, by the model.
        measured_ms, predicted_ms: latencies in milliseconds.
    """

    kernel: str
    target: str
    dialect: str
    bound: str
    measured_ms: float
    predicted_ms: float

    @property
    def log_ratio(self) -> float:
        return log(self.measured_ms / self.predicted_ms)


@cache
def residuals() -> tuple[Residual, ...]:
    """The calibration data of this version."""
    text = files("accelopt_lsp.profiler").joinpath("data/calibration.json").read_text("utf-8")
    rows = json.loads(text)["residuals"]
    return tuple(Residual(**{name: row[name] for name in Residual.__annotations__}) for row in rows)


def interval(
    latency_ms: float, *, target: str, dialect: Dialect, bound: Bound | None
) -> Uncertainty:
    """80 % interval around a predicted latency."""
    rows = [r for r in residuals() if r.target == target and r.dialect == dialect.value]
    extrapolated = not rows
    alike = [r for r in rows if bound is not None and r.bound == bound.value]
    if len(alike) >= MIN_KERNELS:
        rows = alike
    else:
        extrapolated = True
        rows = rows or list(residuals())
    spread = max(FLOOR, sqrt(sum(r.log_ratio**2 for r in rows) / len(rows))) if rows else 1.0
    quantile = _STUDENT.get(max(3, min(14, len(rows))), 1.345)
    half = quantile * spread * (WIDENING if extrapolated else 1.0)
    return Uncertainty(
        low_ms=latency_ms * exp(-half),
        high_ms=latency_ms * exp(half),
        level=LEVEL,
        extrapolated=extrapolated,
    )
