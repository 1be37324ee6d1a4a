"""Fits the machine constants again, and once more without each family of kernels.

Each kernel is traced a few times and scheduled many times: for the derivatives by every
constant, then once an iteration for each fit. The fits (to all kernels, and to all but one
family) go on side by side, so that an iteration traces each kernel once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from attrs import define, frozen

from accelopt_lsp.nki.targets import Target, get_target
from accelopt_lsp.profiler.base import Progress
from accelopt_lsp.profiler.fitting import SHARES, Array, Observation, Prior, Problem, priors
from accelopt_lsp.profiler.measured import MeasuredKernel, Use
from accelopt_lsp.profiler.simulator.variants import Variant, VariantProfile
from accelopt_lsp.workbench.ablation import vary
from accelopt_lsp.workbench.bench import BenchRequest, counted, each, longest
from accelopt_lsp.workbench.requests import RequestError

STEP = 0.08
"""Relative change of a cost for derivatives, in both directions."""
ITERATIONS = 3


@frozen(slots=True)
class Prediction:
    """Latency of one kernel under several sets of constants, in milliseconds.

    Attributes:
        present: with the constants of this version.
        fitted: with those fitted to all kernels.
        held_out: with those fitted without the kernel's family.
    """

    kernel: MeasuredKernel
    present: VariantProfile
    fitted: VariantProfile
    held_out: VariantProfile

    def error(self, which: VariantProfile) -> float | None:
        """Relative error of one of them."""
        if which.latency_ms is None:
            return None
        return which.latency_ms / self.kernel.measured_ms - 1


@frozen(slots=True)
class Calibration:
    """What a calibration found.

    Attributes:
        target: whose constants.
        priors: what they were pulled toward.
        engine_fitted: constants that follow from engines' active times.
        constants: fitted to all kernels.
        without: family to the constants fitted without it.
        predictions: one for each kernel.
    """

    target: Target
    priors: tuple[Prior, ...]
    engine_fitted: frozenset[str]
    constants: Mapping[str, float]
    without: Mapping[str, Mapping[str, float]]
    predictions: tuple[Prediction, ...]

    def mean_error(self, which: str, family: str | None = None) -> float | None:
        """Mean absolute error of ``present``, ``fitted`` or ``held_out`` latencies."""
        errors = [
            p.error(getattr(p, which))
            for p in self.predictions
            if family is None or p.kernel.family == family
        ]
        known = [abs(e) for e in errors if e is not None]
        return mean(known) if known else None

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "target": self.target.name,
            "constants": {
                p.name: {
                    "present": self.target[p.name],
                    "prior": p.value,
                    "fitted": self.constants[p.name],
                    "without": {f: c[p.name] for f, c in self.without.items()},
                    "from_active_time": p.name in self.engine_fitted,
                }
                for p in self.priors
            },
            "kernels": [
                {
                    "kernel": p.kernel.kernel,
                    "family": p.kernel.family,
                    "measured_ms": p.kernel.measured_ms,
                    "present_ms": p.present.latency_ms,
                    "fitted_ms": p.fitted.latency_ms,
                    "held_out_ms": p.held_out.latency_ms,
                }
                for p in self.predictions
            ],
            "mean_error": {
                which: self.mean_error(which) for which in ("present", "fitted", "held_out")
            },
        }


@define
class _Fit:
    """One set of kernels on its way to its constants."""

    left_out: str | None
    costs: Array
    best: Array
    objective: float = float("inf")
    answers: tuple[VariantProfile, ...] = ()


async def calibrate(
    request: BenchRequest, progress: Progress | None = None, *, iterations: int = ITERATIONS
) -> Calibration:
    """Fit the calibrated constants of the kernels' target.

    Raises:
        RequestError: a kernel is missing or does not run, or they have several targets.
    """
    kernels = [
        (kernel, place)
        for kernel, place in request.kernels()
        if request.measured is not None or kernel.use is Use.CALIBRATION
    ]
    names = {kernel.target for kernel, _ in kernels}
    if len(names) != 1:
        raise RequestError("calibration takes kernels of one target")
    target = get_target(names.pop())
    problem, present = await _linearise(kernels, target, progress)
    families = sorted({kernel.family for kernel, _ in kernels})
    left_out = [None, *families] if len(families) > 1 else [None]
    fits = []
    for family in left_out:
        start = problem.engine_costs(family)
        fits.append(_Fit(family, start, start))
    for _ in range(iterations):
        points = [problem.constants(fit.costs) for fit in fits]
        table = await _evaluate(kernels, points, progress)
        for fit, answers in zip(fits, zip(*table, strict=True), strict=True):
            _advance(problem, fit, kernels, answers)
    whole, *others = fits
    without = {fit.left_out: fit for fit in others}
    predictions = []
    for number, (kernel, _) in enumerate(kernels):
        fit = without.get(kernel.family, whole)
        predictions.append(
            Prediction(kernel, present[number], whole.answers[number], fit.answers[number])
        )
    return Calibration(
        target=target,
        priors=problem.priors,
        engine_fitted=frozenset(
            p.name for p, own in zip(problem.priors, problem.occupying, strict=True) if own
        ),
        constants=problem.constants(whole.best),
        without={str(fit.left_out): problem.constants(fit.best) for fit in others},
        predictions=tuple(predictions),
    )


def _advance(
    problem: Problem,
    fit: _Fit,
    kernels: Sequence[tuple[MeasuredKernel, Path]],
    answers: Sequence[VariantProfile],
) -> None:
    """Keep a point that is better, and choose the next one."""
    model = _model([k for k, _ in kernels], answers)
    objective = problem.objective(fit.costs, model, fit.left_out)
    if objective < fit.objective:
        fit.objective, fit.best, fit.answers = objective, fit.costs, tuple(answers)
        fit.costs = problem.next_costs(fit.costs, model, fit.left_out)
    else:
        # Too far: the schedule is not linear in its constants.
        fit.costs = (fit.best + fit.costs) / 2


def observations(kernels: Sequence[MeasuredKernel]) -> tuple[Observation, ...]:
    """What was measured of the kernels, in the order of :func:`_model`'s figures."""
    found = []
    for kernel in kernels:
        found.append(Observation(kernel.kernel, kernel.family, "latency", log(kernel.measured_ms)))
        for engine in SHARES:
            share = kernel.counters.get(f"{engine}_engine_active_time_percent")
            if share is not None:
                found.append(Observation(kernel.kernel, kernel.family, engine, share))
    return tuple(found)


def _model(kernels: Sequence[MeasuredKernel], answers: Sequence[VariantProfile]) -> Array:
    """The model's figures for all observations.

    Shares are of the measured latency: so they depend on engine time alone, and linearly.
    """
    figures = []
    for kernel, answer in zip(kernels, answers, strict=True):
        if not answer.latency_ms:
            raise RequestError(f"{kernel.kernel} has an instruction without a known cost")
        figures.append(log(answer.latency_ms))
        for engine in SHARES:
            name = f"{engine}_engine_active_time_percent"
            if name in kernel.counters:
                share = answer.counters.get(name) or 0.0
                figures.append(share * answer.latency_ms / kernel.measured_ms)
    return np.array(figures)


async def _evaluate(
    kernels: Sequence[tuple[MeasuredKernel, Path]],
    points: Sequence[Mapping[str, float]],
    progress: Progress | None,
) -> tuple[tuple[VariantProfile, ...], ...]:
    """Profiles by kernel and point."""
    variants = [Variant(constants=point) for point in points]

    async def one(item: tuple[MeasuredKernel, Path]) -> tuple[VariantProfile, ...]:
        return await vary(*item, variants)

    return await each(kernels, one, counted(kernels, progress), longest)


async def _linearise(
    kernels: Sequence[tuple[MeasuredKernel, Path]], target: Target, progress: Progress | None
) -> tuple[Problem, tuple[VariantProfile, ...]]:
    """Figures and derivatives at the present constants."""
    found = priors(target)
    costs = np.array([p.cost(target[p.name]) for p in found])
    points: list[dict[str, float]] = [{}]
    steps = []
    for number, prior in enumerate(found):
        # A cost of nothing still has a derivative.
        step = STEP * max(costs[number], 0.25)
        ends = [max(costs[number] - step, 1e-6), costs[number] + step]
        steps.append(ends[1] - ends[0])
        points += [{prior.name: prior.constant(end)} for end in ends]
    table = await _evaluate(kernels, points, progress)
    names = [kernel for kernel, _ in kernels]
    plain, *changed_models = (_model(names, answers) for answers in zip(*table, strict=True))
    columns = [
        (changed_models[2 * n + 1] - changed_models[2 * n]) / step for n, step in enumerate(steps)
    ]
    problem = Problem(
        priors=found,
        observations=observations(names),
        costs=costs,
        model=plain,
        jacobian=np.array(columns).T,
    )
    return problem, tuple(row[0] for row in table)
