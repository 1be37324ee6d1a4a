"""What each rule and each constant of the model is worth: ``accelopt bench --ablation``.

Every kernel is traced once. Its trace is scheduled as the model has it, then with each rule of
its dialect's policy switched off in turn, then with each calibrated constant a tenth smaller and
larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import attrs
from attrs import frozen

from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.base import Failure, Progress
from accelopt_lsp.profiler.measured import MeasuredError, MeasuredKernel, Use, job_of
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.profiler.simulator.timeline.policy import POLICIES, Ablation, ablations
from accelopt_lsp.profiler.simulator.variants import Variant, VariantProfile, is_continuous
from accelopt_lsp.workbench.bench import BenchRequest, counted, each, longest
from accelopt_lsp.workbench.requests import RequestError

STEP = 0.1
"""Relative change of each constant."""


@frozen(slots=True)
class AblationRow:
    """The model with one thing changed.

    Attributes:
        name: rule or constant; ``model`` for the model as it is.
        title: the rule that is off, or the change of the constant, for people.
        errors: relative latency error by kernel; None where there is no latency. Kernels that
            the change does not concern have the model's.
    """

    name: str
    title: str
    errors: Mapping[str, float | None]

    @property
    def mean(self) -> float | None:
        """Mean of the absolute errors."""
        known = [abs(e) for e in self.errors.values() if e is not None]
        return mean(known) if known else None

    @property
    def median(self) -> float | None:
        known = [abs(e) for e in self.errors.values() if e is not None]
        return median(known) if known else None


@frozen(slots=True)
class AblationReport:
    """The model as it is, without each rule, and with each constant changed.

    Attributes:
        kernels: names, in order.
        model: the model as it is.
        rules: without each rule.
        constants: name to the rows with the constant a tenth smaller and a tenth larger.
    """

    kernels: tuple[str, ...]
    model: AblationRow
    rules: tuple[AblationRow, ...]
    constants: Mapping[str, tuple[AblationRow, AblationRow]]

    @property
    def effective(self) -> tuple[AblationRow, ...]:
        """Rules without which some kernel's latency differs."""
        return tuple(r for r in self.rules if r.errors != self.model.errors)

    @property
    def idle(self) -> tuple[AblationRow, ...]:
        """Rules that none of these kernels meets."""
        return tuple(r for r in self.rules if r.errors == self.model.errors)

    def to_json(self) -> dict[str, Any]:
        def row(found: AblationRow) -> dict[str, Any]:
            return {**attrs.asdict(found), "mean": found.mean, "median": found.median}

        return {
            "model": row(self.model),
            "rules": [row(r) for r in self.rules],
            "constants": {n: [row(r) for r in both] for n, both in self.constants.items()},
        }


Key = tuple[str, str]


def variants_of(
    kernel: MeasuredKernel, *, constants: bool = True
) -> tuple[tuple[Key, Variant], ...]:
    """All variants of a kernel, each with what it stands for."""
    found: list[tuple[Key, Variant]] = [(("model", "model"), Variant())]
    for rule in ablations(POLICIES[kernel.dialect]):
        found.append((("rule", rule.name), Variant(policy={rule.name: rule.off})))
    if constants:
        for name, constant in get_target(kernel.target).constants.items():
            if constant.status == "calibrated" and is_continuous(constant):
                for sign in (-1, 1):
                    changed = constant.value * (1 + sign * STEP)
                    key = ("constant", f"{name} {sign * STEP:+.0%}")
                    found.append((key, Variant(constants={name: changed})))
    return tuple(found)


async def ablate(
    request: BenchRequest, progress: Progress | None = None, *, constants: bool = True
) -> AblationReport:
    """Switch off every rule in turn, on the kernels that the constants were fitted to.

    With a file of measured kernels of the caller's, on all of these.

    Raises:
        RequestError: something that is named does not exist, or a kernel does not run.
    """
    kernels = [
        (kernel, place)
        for kernel, place in request.kernels()
        if request.measured is not None or kernel.use is Use.CALIBRATION
    ]

    async def one(item: tuple[MeasuredKernel, Path]) -> Mapping[Key, float | None]:
        kernel, place = item
        keyed = variants_of(kernel, constants=constants)
        answers = await vary(kernel, place, [variant for _, variant in keyed])
        return {
            key: None if a.latency_ms is None else a.latency_ms / kernel.measured_ms - 1
            for (key, _), a in zip(keyed, answers, strict=True)
        }

    found = await each(kernels, one, counted(kernels, progress), longest)
    return _report([k for k, _ in kernels], found)


async def vary(
    kernel: MeasuredKernel, place: Path, variants: Sequence[Variant]
) -> tuple[VariantProfile, ...]:
    """Schedule one measured kernel many times.

    Raises:
        RequestError: it does not run.
    """
    try:
        answers = await SimulatorProfiler(1).vary(job_of(kernel, place), variants)
    except MeasuredError as error:
        raise RequestError(str(error)) from None
    if isinstance(answers, Failure):
        raise RequestError(f"{kernel.kernel}: {answers.message}")
    return answers


def _report(
    kernels: Sequence[MeasuredKernel], found: Sequence[Mapping[Key, float | None]]
) -> AblationReport:
    names = tuple(k.kernel for k in kernels)
    plain = {name: row["model", "model"] for name, row in zip(names, found, strict=True)}

    def errors(key: Key) -> dict[str, float | None]:
        return {name: row.get(key, plain[name]) for name, row in zip(names, found, strict=True)}

    rules: dict[str, Ablation] = {}
    constants: dict[str, None] = {}
    for kernel in kernels:
        rules |= {rule.name: rule for rule in ablations(POLICIES[kernel.dialect])}
    for row in found:
        constants |= {name.partition(" ")[0]: None for kind, name in row if kind == "constant"}

    def step(name: str, sign: int) -> AblationRow:
        key = f"{name} {sign * STEP:+.0%}"
        return AblationRow(name, key, errors(("constant", key)))

    return AblationReport(
        kernels=names,
        model=AblationRow("model", "the model as it is", plain),
        rules=tuple(
            AblationRow(name, rule.title, errors(("rule", name))) for name, rule in rules.items()
        ),
        constants={name: (step(name, -1), step(name, 1)) for name in constants},
    )
