"""Kernels whose latency somebody measured on hardware, and how to run them here.

The package carries figures and their sources (``data/*_measured.json``), not the kernels: these
stand in repositories that the user has a working copy of. A file of one's own has the same form::

    {"schema_version": 1, "source": "...", "use": "check", "kernels": [
      {"kernel": "softmax", "file": "kernels/softmax.py", "function": "kernel",
       "arguments": {"x": "f32[4096,1024]"}, "target": "trn2", "dialect": "current",
       "measured_ms": 0.21, "family": "attention", "counters": {"hbm_read_bytes": 16777216}}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.resources import files
from math import isfinite
from pathlib import Path
from textwrap import dedent
from typing import Any

from attrs import field, frozen

from accelopt_lsp.nki.arguments import KernelArguments, SpecError, parse_spec
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.profile import COUNTER_NAMES
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.nki.traffic import spill_share
from accelopt_lsp.profiler.base import Job, Limits
from accelopt_lsp.profiler.simulator.signature import kernel_parameters

LIMITS = Limits(seconds=1800)
"""Many schedules of one trace take longer than one run of a kernel."""
PUBLISHED = ("nkibench_measured.json", "aws_measured.json")


class MeasuredError(ValueError):
    """A file of measured kernels, or what it names, cannot be used."""


class Use(StrEnum):
    """What a measurement is for."""

    CALIBRATION = "calibration"
    CHECK = "check"


@frozen(slots=True)
class MeasuredKernel:
    """One kernel with a measured latency.

    Attributes:
        kernel: name for tables.
        checkout: which working copy its file is in: ``accelopt``, ``sdk`` or ``sdk-legacy``.
        file: path in it.
        target, dialect: what it ran on, and how it is written.
        measured_ms: device time in milliseconds.
        use: whether machine constants may be fitted to it.
        function: the kernel in the file.
        reference: file that makes its inputs, or None.
        arguments: SPEC by parameter.
        listing: for a page of documentation: which of its listings that define the function.
        family: kernels of one kind, left out together when calibration is tested.
        series: versions of one kernel, whose order matters.
        how: how it was measured.
        counters: neuron-profile's summary names; only those that were published.
    """

    kernel: str
    checkout: str
    file: str
    target: str
    dialect: Dialect
    measured_ms: float
    use: Use
    function: str = "kernel"
    reference: str | None = None
    arguments: Mapping[str, str] = field(factory=dict)
    listing: int | None = None
    family: str = "other"
    series: str | None = None
    how: str = ""
    counters: Mapping[str, float] = field(factory=dict)

    @property
    def spill_share(self) -> float | None:
        """Spilled and re-loaded bytes over all HBM traffic; None if it was not measured."""
        return spill_share(self.counters)


def published() -> tuple[MeasuredKernel, ...]:
    """The kernels that the package has figures for."""
    folder = files("accelopt_lsp.profiler").joinpath("data")
    return tuple(
        kernel
        for name in PUBLISHED
        for kernel in parse_measured(folder.joinpath(name).read_text("utf-8"), name)
    )


def read_measured(path: Path) -> tuple[MeasuredKernel, ...]:
    """The kernels of a file.

    Raises:
        MeasuredError: it cannot be read, or is none.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MeasuredError(f"cannot read {path}: {error}") from None
    return parse_measured(text, str(path))


def parse_measured(text: str, name: str) -> tuple[MeasuredKernel, ...]:
    """The kernels of a file's text; ``name`` is for messages.

    Raises:
        MeasuredError: it is none.
    """
    try:
        data = json.loads(text)
        if not isinstance(data, dict):
            raise ValueError("not one JSON object")
        use = Use(data.get("use", Use.CHECK))
        found = tuple(_kernel(row, use) for row in data["kernels"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise MeasuredError(f"{name} is no file of measured kernels: {what}") from None
    if len({k.kernel for k in found}) != len(found):
        raise MeasuredError(f"{name} names a kernel twice")
    return found


def _kernel(row: Mapping[str, Any], use: Use) -> MeasuredKernel:
    measured = float(row["measured_ms"])
    if not (isfinite(measured) and measured > 0):
        raise ValueError(f"measured_ms of {row['kernel']} is {measured}")
    counters = {str(k): float(v) for k, v in row.get("counters", {}).items()}
    strange = sorted(set(counters) - set(COUNTER_NAMES))
    if strange:
        raise ValueError(f"{row['kernel']} has unknown counters {', '.join(strange)}")
    return MeasuredKernel(
        kernel=str(row["kernel"]),
        checkout=str(row.get("checkout", "accelopt")),
        file=str(row["file"]),
        target=get_target(str(row["target"])).name,
        dialect=Dialect(row["dialect"]),
        measured_ms=measured,
        use=use,
        function=str(row.get("function", "kernel")),
        reference=row.get("reference"),
        arguments={str(k): str(v) for k, v in row.get("arguments", {}).items()},
        listing=row.get("listing"),
        family=str(row.get("family", "other")),
        series=row.get("series"),
        how=str(row.get("how", "")),
        counters=counters,
    )


def job_of(kernel: MeasuredKernel, checkout: Path, limits: Limits = LIMITS) -> Job:
    """The job that traces a kernel of a working copy.

    Raises:
        MeasuredError: the working copy lacks its file, or the file lacks the kernel.
    """
    path = checkout / kernel.file
    try:
        source = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MeasuredError(f"cannot read {path}: {error}") from None
    if kernel.listing is not None:
        source = listing(source, kernel.function, kernel.listing)
        path = path.with_suffix(".py")
    reference = None if kernel.reference is None else checkout / kernel.reference
    if reference is not None and not reference.is_file():
        raise MeasuredError(f"{reference} does not exist")
    try:
        given = {name: parse_spec(spec) for name, spec in kernel.arguments.items()}
        required = [p.name for p in kernel_parameters(source, kernel.function) if p.required]
    except (SpecError, SyntaxError, ValueError) as error:
        raise MeasuredError(f"{kernel.kernel}: {error}") from None
    return Job(
        path=path,
        source=source,
        function=kernel.function,
        arguments=KernelArguments(
            values=given,
            target=kernel.target,
            reference=None if reference is None else str(reference),
            missing=tuple(name for name in required if name not in given),
        ),
        target=kernel.target,
        reference=reference,
        limits=limits,
    )


def listing(text: str, function: str, number: int) -> str:
    """The Nth Python code block of a reStructuredText page that defines ``function``.

    Raises:
        MeasuredError: there are not that many.
    """
    found = []
    lines = text.split("\n")
    for start, line in enumerate(lines):
        if not line.strip().startswith(".. code-block:: python"):
            continue
        block: list[str] = []
        depth = len(line) - len(line.lstrip())
        for inner in lines[start + 1 :]:
            if inner.strip() and len(inner) - len(inner.lstrip()) <= depth:
                break
            block.append(inner)
        code = dedent("\n".join(block)).strip("\n") + "\n"
        if f"def {function}(" in code:
            found.append(code)
    if not 1 <= number <= len(found):
        raise MeasuredError(f"no listing {number} of {function}: the page has {len(found)}")
    return found[number - 1]


def chosen(
    kernels: Sequence[MeasuredKernel], only: Sequence[str], places: Mapping[str, Path | None]
) -> tuple[MeasuredKernel, ...]:
    """Those that are asked for and have a working copy.

    Raises:
        MeasuredError: a name is unknown.
    """
    known = {k.kernel for k in kernels}
    for name in only:
        if name not in known:
            raise MeasuredError(f"no measured kernel {name!r}; known: {', '.join(sorted(known))}")
    return tuple(
        k for k in kernels if places.get(k.checkout) is not None and (not only or k.kernel in only)
    )
