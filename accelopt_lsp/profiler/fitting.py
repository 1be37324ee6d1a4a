"""Fits machine constants to measured kernels: regularised least squares with bounds.

Observed of each kernel: the logarithm of its latency, and the share of the measured latency that
Vector, Scalar and GpSimd are active. Every constant enters as a *cost*, its value over the prior's
(for a rate the inverse), because the time that an engine is occupied is linear in costs: counts
times overheads. So constants that occupy an engine follow exactly from active times, in one linear
solve; the others (transfers, latencies, launch) follow from latencies by Gauss-Newton, in which
kernels whose latency the model cannot explain count less and less (Huber's weights).

Everything here is arithmetic on what :mod:`accelopt_lsp.workbench.calibration` has the simulator
compute.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from attrs import frozen

from accelopt_lsp.nki.targets import Constant, Target
from accelopt_lsp.profiler.simulator.variants import is_continuous

LATENCY_SIGMA = 0.05
"""Standard deviation of the logarithm of a latency that the model cannot help."""
SHARE_SIGMA = 0.02
"""The same of a share of active time."""
HUBER = 1.5
"""Standard deviations from where on an observation counts less."""
PRESENT_SPREAD, PRESENT_FACTOR = 0.25, 2.0
"""Prior of a constant that has none on record: spread and bounds around the present value."""
SHARES = ("vector", "scalar", "gpsimd")

REWEIGHTINGS = 10
"""How often observations are weighed anew where the model is linear."""

Array = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@frozen(slots=True)
class Prior:
    """What is known about a constant without measurements.

    Attributes:
        name: of the constant.
        value: in the unit of the target's table.
        spread: standard deviation of its cost, relative to that of ``value``.
        low, high: bounds, in the same unit.
        rate: a larger value costs less.
        source: where this comes from.
    """

    name: str
    value: float
    spread: float
    low: float
    high: float
    rate: bool
    source: str

    def cost(self, value: float) -> float:
        """Cost of a value, 1 for the prior's own."""
        return self.value / value if self.rate else value / self.value

    def constant(self, cost: float) -> float:
        """The value that costs this much."""
        return self.value / cost if self.rate else cost * self.value

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest cost."""
        ends = (self.cost(self.low), self.cost(self.high))
        return min(ends), max(ends)


def priors(target: Target) -> tuple[Prior, ...]:
    """A prior for each calibrated constant of a target."""
    text = files("accelopt_lsp.profiler").joinpath("data/priors.toml").read_text("utf-8")
    known: Mapping[str, Any] = tomllib.loads(text).get(target.name, {})
    found = []
    for name, constant in target.constants.items():
        if constant.status == "calibrated" and is_continuous(constant):
            found.append(_prior(name, constant, known.get(name)))
    return tuple(found)


def _prior(name: str, constant: Constant, known: Mapping[str, Any] | None) -> Prior:
    rate = constant.unit.endswith(("/ns", "Hz", "/s"))
    if known is not None:
        return Prior(name=name, rate=rate, **known)
    # What is nothing at present has no scale of its own.
    value = constant.value or 1.0
    return Prior(
        name=name,
        value=value,
        spread=PRESENT_SPREAD,
        low=constant.value / PRESENT_FACTOR,
        high=value * PRESENT_FACTOR,
        rate=rate,
        source="present value",
    )


@frozen(slots=True)
class Observation:
    """One measured figure.

    Attributes:
        kernel, family: whose it is.
        kind: ``latency``, or the engine whose share it is.
        value: logarithm of the latency in milliseconds, or the share.
    """

    kernel: str
    family: str
    kind: str
    value: float

    @property
    def sigma(self) -> float:
        return LATENCY_SIGMA if self.kind == "latency" else SHARE_SIGMA


def huber_weights(residuals: Array) -> Array:
    """Weights of residuals in standard deviations: 1, and less beyond :data:`HUBER`."""
    size = np.maximum(np.abs(residuals), 1e-12)
    return np.minimum(1.0, HUBER / size)


def huber_loss(residuals: Array) -> float:
    """Half the square within :data:`HUBER` standard deviations, linear beyond."""
    size = np.abs(residuals)
    inner = np.minimum(size, HUBER)
    return float(np.sum(0.5 * inner**2 + HUBER * (size - inner)))


def bounded_solve(
    matrix: Array, target: Array, center: Array, spread: Array, low: Array, high: Array
) -> Array:
    """Minimise ``|matrix x - target|^2 + |(x - center) / spread|^2`` within bounds.

    Variables that would leave their bounds are fixed there, worst first, and the rest is solved
    again. Shapes: matrix (rows, n), target (rows,), all others (n,).
    """
    count = len(center)
    x = np.array(center, dtype=np.float64)
    fixed = np.zeros(count, dtype=np.bool_)
    for _ in range(count + 1):
        free = ~fixed
        if not free.any():
            break
        part = matrix[:, free]
        rest = target - matrix[:, fixed] @ x[fixed]
        normal = part.T @ part + np.diag(spread[free] ** -2.0)
        right = part.T @ rest + center[free] * spread[free] ** -2.0
        x[free] = np.linalg.solve(normal, right)
        over = np.maximum(low - x, x - high) / spread
        over[fixed] = -np.inf
        worst = int(np.argmax(over))
        if over[worst] <= 0:
            break
        x[worst] = np.clip(x[worst], low[worst], high[worst])
        fixed[worst] = True
    return x


@frozen(slots=True, eq=False)
class Problem:
    """Observations, constants, and how the ones depend on the others.

    Attributes:
        priors: of the n constants.
        observations: m measured figures.
        costs: (n,) where the model was linearised.
        model: (m,) model's figures there.
        jacobian: (m, n) their derivatives by cost.
    """

    priors: tuple[Prior, ...]
    observations: tuple[Observation, ...]
    costs: Array
    model: Array
    jacobian: Array

    @property
    def measured(self) -> Array:
        return np.array([o.value for o in self.observations])

    @property
    def sigma(self) -> Array:
        return np.array([o.sigma for o in self.observations])

    def rows(self, *, left_out: str | None, shares: bool) -> Mask:
        """Which observations take part: shares of time or latencies, without a family."""
        return np.array(
            [o.family != left_out and (o.kind != "latency") is shares for o in self.observations]
        )

    @property
    def occupying(self) -> Mask:
        """(n,) Constants that some observed active time depends on."""
        shares = self.rows(left_out=None, shares=True)
        found: Mask = np.any(np.abs(self.jacobian[shares]) > 1e-9, axis=0)
        return found

    def _bounds(self) -> tuple[Array, Array, Array]:
        low, high = zip(*(p.bounds for p in self.priors), strict=True)
        return np.array(low), np.array(high), np.array([p.spread for p in self.priors])

    def engine_costs(self, left_out: str | None) -> Array:
        """Costs with those that occupy engines fitted to active times, exactly."""
        chosen, rows = self.occupying, self.rows(left_out=left_out, shares=True)
        costs = self.costs
        for _ in range(REWEIGHTINGS):
            model = self.model + self.jacobian @ (costs - self.costs)
            costs = self._step(costs, model, chosen, rows)
        return costs

    def next_costs(self, costs: Array, model: Array, left_out: str | None) -> Array:
        """Costs after one step of Gauss-Newton on the latencies."""
        chosen, rows = ~self.occupying, self.rows(left_out=left_out, shares=False)
        return self._step(costs, model, chosen, rows)

    def _step(self, costs: Array, model: Array, chosen: Mask, rows: Mask) -> Array:
        found = np.array(costs)
        if not chosen.any():
            return found
        low, high, spread = self._bounds()
        residual = (self.measured[rows] - model[rows]) / self.sigma[rows]
        weights = np.sqrt(huber_weights(residual))
        matrix = self.jacobian[rows][:, chosen] / self.sigma[rows, None]
        target = residual + matrix @ costs[chosen]
        found[chosen] = bounded_solve(
            matrix * weights[:, None],
            target * weights,
            np.ones(int(chosen.sum())),
            spread[chosen],
            low[chosen],
            high[chosen],
        )
        return found

    def objective(self, costs: Array, model: Array, left_out: str | None) -> float:
        """What the fit minimises: residuals of latencies, and the pull toward the priors."""
        rows = self.rows(left_out=left_out, shares=False)
        residual = (self.measured[rows] - model[rows]) / self.sigma[rows]
        _, _, spread = self._bounds()
        free = ~self.occupying
        pull = (costs[free] - 1.0) / spread[free]
        return huber_loss(residual) + 0.5 * float(np.sum(pull**2))

    def constants(self, costs: Sequence[float] | Array) -> dict[str, float]:
        """Values of constants by name."""
        return {p.name: p.constant(float(c)) for p, c in zip(self.priors, costs, strict=True)}
