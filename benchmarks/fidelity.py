"""How close the simulator comes to measured kernels.

    fidelity.py CHECKOUT [--sdk SDK] [--sdk-legacy SDK] [--write]

CHECKOUT is a working copy of github.com/zhang677/AccelOpt, whose kernels are published with
what neuron-profile measured on Trainium 1. The other two are working copies of
github.com/aws-neuron/aws-neuron-sdk, current and at tag v2.26.0, whose tutorials name device
times. The figures and their sources are in ``accelopt_lsp/profiler/data/*_measured.json``. All
kernels run in the simulator's sandbox. ``--write`` stores the residuals that the uncertainty of
every simulated latency comes from; residuals of kernels that were not run stay as they are.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from importlib.resources import files
from pathlib import Path
from statistics import mean, median
from textwrap import dedent
from typing import Any

from attrs import frozen

from accelopt_lsp.nki.arguments import KernelArguments, parse_spec
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, Job, Limits
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.profiler.simulator.signature import kernel_parameters

DATA = Path(str(files("accelopt_lsp.profiler").joinpath("data")))
COUNTERS = {
    "hbm_read_bytes": ("HBM read MB", 1e-6),
    "hbm_write_bytes": ("HBM write MB", 1e-6),
    "spill_save_bytes": ("spill save MB", 1e-6),
    "spill_reload_bytes": ("spill reload MB", 1e-6),
    "hardware_flops": ("GFLOP", 1e-9),
    "transpose_flops": ("transpose GFLOP", 1e-9),
    "vector_engine_active_time_percent": ("vector share", 1.0),
    "scalar_engine_active_time_percent": ("scalar share", 1.0),
}


@frozen
class Row:
    """One kernel: what was measured, and what the simulator says."""

    kernel: str
    measured: dict[str, Any]
    outcome: Profile | Failure

    @property
    def error(self) -> float | None:
        """Relative error of the latency."""
        if isinstance(self.outcome, Failure) or self.outcome.latency_ms is None:
            return None
        return float(self.outcome.latency_ms / self.measured["measured_ms"] - 1)


async def predict(checkout: Path, row: dict[str, Any]) -> Row:
    """Trace one kernel in the sandbox and schedule it."""
    path = checkout / row["file"]
    function = row.get("function", "kernel")
    source = path.read_text("utf-8")
    if "listing" in row:
        source = listing(source, function, row["listing"])
        path = path.with_suffix(".py")
    reference = checkout / row["reference"] if "reference" in row else None
    given = {name: parse_spec(spec) for name, spec in row.get("arguments", {}).items()}
    names = (p.name for p in kernel_parameters(source, function) if p.required)
    job = Job(
        path=path,
        source=source,
        function=function,
        arguments=KernelArguments(
            values=given,
            target=row["target"],
            reference=None if reference is None else str(reference),
            missing=tuple(name for name in names if name not in given),
        ),
        target=row["target"],
        reference=reference,
        limits=Limits(seconds=600),
    )
    return Row(row["kernel"], row, await SimulatorProfiler().profile(job))


def listing(text: str, function: str, number: int) -> str:
    """The Nth Python code block of a reStructuredText page that defines ``function``."""
    found = []
    lines = text.split("\n")
    for start, line in enumerate(lines):
        if not line.strip().startswith(".. code-block:: python"):
            continue
        block = []
        depth = len(line) - len(line.lstrip())
        for inner in lines[start + 1 :]:
            if inner.strip() and len(inner) - len(inner.lstrip()) <= depth:
                break
            block.append(inner)
        code = dedent("\n".join(block)).strip("\n") + "\n"
        if f"def {function}(" in code:
            found.append(code)
    return found[number - 1]


def table(rows: list[Row], *, counters: bool) -> str:
    """A table for people."""
    lines = [f"{'kernel':24}{'measured ms':>12}{'simulated ms':>14}{'error':>9}  bound"]
    for row in rows:
        measured = row.measured["measured_ms"]
        if isinstance(row.outcome, Failure):
            lines.append(f"{row.kernel:24}{measured:12.3f}  failed: {row.outcome.message}")
            continue
        latency, error = row.outcome.latency_ms, row.error
        if latency is None or error is None:
            unknown = ", ".join(row.outcome.unknown_instructions)
            lines.append(f"{row.kernel:24}{measured:12.3f}  unknown cost: {unknown}")
            continue
        lines.append(
            f"{row.kernel:24}{measured:12.3f}{latency:14.3f}{error:+9.1%}  {row.outcome.bound}"
        )
        if counters:
            lines += _counters(row.measured.get("counters", {}), row.outcome)
    errors = [abs(row.error) for row in rows if row.error is not None]
    if errors:
        lines.append(
            f"{len(errors)} of {len(rows)} kernels: mean absolute error {mean(errors):.1%}, "
            f"median {median(errors):.1%}, largest {max(errors):.1%}"
        )
    return "\n".join(lines)


def _counters(measured: dict[str, float], profile: Profile) -> list[str]:
    lines = []
    for name, (title, scale) in COUNTERS.items():
        given, found = measured.get(name), profile.counters.get(name)
        if given is None or found is None:
            continue
        lines.append(f"    {title:22}{given * scale:12.3f}{found * scale:14.3f}")
    return lines


def residuals(rows: list[Row]) -> list[dict[str, Any]]:
    """What the calibration file holds."""
    return [
        {
            "kernel": row.kernel,
            "target": row.measured["target"],
            "dialect": row.measured["dialect"],
            "bound": str(row.outcome.bound),
            "measured_ms": row.measured["measured_ms"],
            "predicted_ms": round(row.outcome.latency_ms, 6),
        }
        for row in rows
        if not isinstance(row.outcome, Failure) and row.outcome.latency_ms is not None
    ]


async def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Simulated against measured latencies.")
    parser.add_argument("checkout", type=Path, help="working copy of zhang677/AccelOpt")
    parser.add_argument("--sdk", type=Path, help="working copy of aws-neuron-sdk")
    parser.add_argument("--sdk-legacy", type=Path, help="the same at tag v2.26.0")
    parser.add_argument("--only", default="", help="names of kernels, separated by commas")
    parser.add_argument("--counters", action="store_true", help="compare counters as well")
    parser.add_argument("--write", action="store_true", help="store the residuals")
    options = parser.parse_args(arguments)
    places = {
        "accelopt": options.checkout,
        "sdk": options.sdk,
        "sdk-legacy": options.sdk_legacy,
    }
    only = set(filter(None, options.only.split(",")))
    rows = []
    for name in ("nkibench_measured.json", "aws_measured.json"):
        for row in json.loads((DATA / name).read_text("utf-8"))["kernels"]:
            place = places[row.get("checkout", "accelopt")]
            if place is None or (only and row["kernel"] not in only):
                continue
            if not (place / row["file"]).is_file():
                print(f"{place / row['file']} does not exist", file=sys.stderr)
                return 2
            rows.append(await predict(place, row))
    print(table(rows, counters=options.counters))
    if options.write:
        store(residuals(rows))
    return 0 if all(row.error is not None for row in rows) else 1


def store(found: list[dict[str, Any]]) -> None:
    """Replace the residuals of these kernels in the calibration file."""
    path = DATA / "calibration.json"
    kept = {r["kernel"]: r for r in json.loads(path.read_text("utf-8"))["residuals"]}
    kept |= {r["kernel"]: r for r in found}
    content = {
        "schema_version": 1,
        "source": "benchmarks/fidelity.py on the kernels of *_measured.json",
        "residuals": list(kept.values()),
    }
    path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
