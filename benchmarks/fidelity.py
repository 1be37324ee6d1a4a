"""How close the simulator comes to measured kernels: ``fidelity.py CHECKOUT [--write]``.

CHECKOUT is a working copy of github.com/zhang677/AccelOpt, whose kernels are published with
what neuron-profile measured on Trainium 1 (``accelopt_lsp/profiler/data/nkibench_measured.json``
holds those figures and their source). The kernels run in the simulator's sandbox. ``--write``
stores the residuals that the uncertainty of every simulated latency comes from.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from importlib.resources import files
from pathlib import Path
from statistics import mean, median
from typing import Any

from attrs import frozen

from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, Job, Limits
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.profiler.simulator.inputs import kernel_parameters

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
    reference = checkout / row["reference"]
    source = path.read_text("utf-8")
    function = row.get("function", "kernel")
    names = tuple(p.name for p in kernel_parameters(source, function) if p.required)
    job = Job(
        path=path,
        source=source,
        function=function,
        arguments=KernelArguments(target=row["target"], reference=str(reference), missing=names),
        target=row["target"],
        reference=reference,
        limits=Limits(seconds=600),
    )
    return Row(row["kernel"], row, await SimulatorProfiler().profile(job))


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
            lines += _counters(row.measured["counters"], row.outcome)
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="", help="names of kernels, separated by commas")
    parser.add_argument("--counters", action="store_true", help="compare counters as well")
    parser.add_argument("--write", action="store_true", help="store the residuals")
    options = parser.parse_args(arguments)
    data = json.loads((DATA / "nkibench_measured.json").read_text("utf-8"))
    only = set(filter(None, options.only.split(",")))
    rows = []
    for row in data["kernels"]:
        if only and row["kernel"] not in only:
            continue
        if not (options.checkout / row["file"]).is_file():
            print(f"{options.checkout / row['file']} does not exist", file=sys.stderr)
            return 2
        rows.append(await predict(options.checkout, row))
    print(table(rows, counters=options.counters))
    if options.write:
        content = {
            "schema_version": 1,
            "source": "benchmarks/fidelity.py on the kernels of nkibench_measured.json",
            "residuals": residuals(rows),
        }
        text = json.dumps(content, indent=1) + "\n"
        (DATA / "calibration.json").write_text(text, "utf-8")
    return 0 if all(row.error is not None for row in rows) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
