"""How close the simulator comes to measured kernels: ``accelopt bench --fidelity``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
from attrs import frozen

from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, Progress
from accelopt_lsp.profiler.comparison import (
    Comparison,
    Criterion,
    Summary,
    criteria,
    pairs,
    summarize,
)
from accelopt_lsp.profiler.measured import (
    MeasuredError,
    MeasuredKernel,
    Use,
    chosen,
    job_of,
    published,
    read_measured,
)
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.profiler.simulator.profiler import usable_cores
from accelopt_lsp.workbench.requests import RequestError

T = TypeVar("T")


@frozen(slots=True)
class BenchRequest:
    """Which measured kernels to run, and where they are.

    Attributes:
        checkout: working copy of zhang677/AccelOpt, or whatever ``measured`` refers to.
        sdk, sdk_legacy: working copies of aws-neuron-sdk, current and at tag v2.26.0.
        only: names of kernels; empty for all.
        measured: file of measured kernels instead of the published ones.
    """

    checkout: Path
    sdk: Path | None = None
    sdk_legacy: Path | None = None
    only: tuple[str, ...] = ()
    measured: Path | None = None

    def kernels(self) -> tuple[tuple[MeasuredKernel, Path], ...]:
        """The kernels, each with the working copy that it is in.

        Raises:
            RequestError: no such folder, kernel or file of figures.
        """
        places = {"accelopt": self.checkout, "sdk": self.sdk, "sdk-legacy": self.sdk_legacy}
        for place in places.values():
            if place is not None and not place.is_dir():
                raise RequestError(f"{place} is no folder")
        try:
            known = published() if self.measured is None else read_measured(self.measured)
            found = chosen(known, self.only, places)
        except MeasuredError as error:
            raise RequestError(str(error)) from None
        if not found:
            raise RequestError("none of these kernels is in the given working copies")
        return tuple((k, places[k.checkout] or self.checkout) for k in found)


@frozen(slots=True)
class BenchReport:
    """The whole comparison.

    Attributes:
        rows: one for each kernel.
        criteria: what was to be reached, and whether it was.
    """

    rows: tuple[Comparison, ...]
    criteria: tuple[Criterion, ...]

    @property
    def met(self) -> bool:
        """Whether nothing that could be decided was missed."""
        return not any(c.met is False for c in self.criteria)

    def groups(self) -> tuple[tuple[str, tuple[Comparison, ...]], ...]:
        """Kernels that constants were fitted to, and those that only check them, by series."""
        groups: dict[str, list[Comparison]] = {}
        for row in self.rows:
            name = "calibration kernels"
            if row.measured.use is Use.CHECK:
                name = row.measured.series or "other kernels"
            groups.setdefault(name, []).append(row)
        return tuple((name, tuple(rows)) for name, rows in groups.items())

    def summaries(self) -> dict[str, Summary]:
        return {name: summarize(rows) for name, rows in self.groups()}

    def to_json(self) -> dict[str, Any]:
        """The object of ``accelopt bench --fidelity --json``."""
        return {
            "schema_version": 1,
            "met": self.met,
            "kernels": [_row_json(row) for row in self.rows],
            "summaries": {n: attrs.asdict(s) for n, s in self.summaries().items()},
            "pairs": [attrs.asdict(p) for p in pairs(self.rows)],
            "criteria": [attrs.asdict(c) for c in self.criteria],
        }


def _row_json(row: Comparison) -> dict[str, Any]:
    measured = row.measured
    names = [n for n in measured.counters if n in row.counters]
    return {
        "kernel": measured.kernel,
        "target": measured.target,
        "dialect": measured.dialect.value,
        "use": measured.use.value,
        "family": measured.family,
        "series": measured.series,
        "measured_ms": measured.measured_ms,
        "latency_ms": row.latency_ms,
        "error": row.error,
        "bound": None if row.bound is None else row.bound.value,
        "uncertainty": None if row.uncertainty is None else attrs.asdict(row.uncertainty),
        "inside_interval": row.inside,
        "hbm_bytes_error": row.bytes_error,
        "counters": {
            name: {
                "measured": measured.counters[name],
                "simulated": row.counters[name],
                "error": _finite(row.counter_error(name)),
            }
            for name in names
        },
        "failure": row.failure,
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or value == float("inf") else value


async def compare_measured(request: BenchRequest, progress: Progress | None = None) -> BenchReport:
    """Run every kernel of a request on the simulator and compare.

    Raises:
        RequestError: something that is named does not exist.
    """
    kernels = request.kernels()

    async def one(item: tuple[MeasuredKernel, Path]) -> Comparison:
        kernel, place = item
        try:
            job = job_of(kernel, place)
        except MeasuredError as error:
            raise RequestError(str(error)) from None
        return comparison_of(kernel, await SimulatorProfiler(1).profile(job))

    rows = await each(kernels, one, counted(kernels, progress), longest)
    return BenchReport(rows, criteria(rows))


def comparison_of(kernel: MeasuredKernel, outcome: Profile | Failure) -> Comparison:
    """A kernel beside what came of running it."""
    if isinstance(outcome, Failure):
        return Comparison(kernel, None, failure=outcome.message)
    failure = None
    if outcome.latency_ms is None:
        failure = f"unknown cost: {', '.join(outcome.unknown_instructions)}"
    return Comparison(
        measured=kernel,
        latency_ms=outcome.latency_ms,
        bound=outcome.bound,
        counters=outcome.counters,
        uncertainty=outcome.uncertainty,
        failure=failure,
    )


async def each(
    items: Sequence[Any],
    work: Callable[[Any], Awaitable[T]],
    done: Callable[[int], None] | None = None,
    weight: Callable[[Any], float] | None = None,
) -> tuple[T, ...]:
    """Do work on all items, as many at a time as there are cores; results in their order.

    ``weight``: the heaviest begin first, so that none is left for last.
    """
    gate = asyncio.Semaphore(usable_cores())
    finished = 0

    async def one(item: Any) -> T:
        nonlocal finished
        async with gate:
            found = await work(item)
        finished += 1
        if done is not None:
            done(finished)
        return found

    order = list(range(len(items)))
    if weight is not None:
        order.sort(key=lambda n: weight(items[n]), reverse=True)
    started = {n: asyncio.create_task(one(items[n])) for n in order}
    tasks = [started[n] for n in range(len(items))]
    try:
        return tuple(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def longest(item: tuple[MeasuredKernel, Path]) -> float:
    """Weight for :func:`each`: kernels that run long are long to simulate."""
    return item[0].measured_ms


def counted(items: Sequence[Any], progress: Progress | None) -> Callable[[int], None] | None:
    """What :func:`each` calls to report how many kernels are done."""
    if progress is None:
        return None
    return lambda n: progress(f"{n} of {len(items)} kernels", n / len(items))
