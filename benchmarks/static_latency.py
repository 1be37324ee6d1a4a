"""How far the estimate from the source is from the simulated and the measured latency.

    static_latency.py [--checkout CHECKOUT] [--only NAMES] [--json FILE]

The examples, and with a working copy of github.com/zhang677/AccelOpt the kernels of NKIBench. An
estimate takes everything to overlap and knows neither merged loads nor spills; ``bytes`` says by
how much the simulator moves less (merging) or more (spills) than what is issued, so that it is
seen where the difference comes from. Exit status 1 means that a kernel could not be estimated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from typing import Any

from attrs import frozen

import accelopt_lsp.profiler
from accelopt_lsp.analysis.files import analyze_kernel
from accelopt_lsp.analysis.kernels import find_kernels, kernel_named
from accelopt_lsp.analysis.results import AnalysisOptions
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.arguments import parse_spec
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, Job
from accelopt_lsp.profiler.simulator import SimulatorProfiler

DATA = Path(accelopt_lsp.profiler.__file__).parent / "data" / "nkibench_measured.json"
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@frozen(slots=True)
class Case:
    """One kernel, with its measured latency where one is published."""

    name: str
    path: Path
    arguments: dict[str, str]
    target: str | None = None
    measured_ms: float | None = None


def cases(checkout: Path | None, only: set[str]) -> Iterator[Case]:
    """The examples, then NKIBench."""
    for path in sorted(EXAMPLES.glob("*/*.py")):
        if not path.stem.endswith("_reference"):
            yield Case(f"{path.parent.name}/{path.stem}", path, {})
    rows = json.loads(DATA.read_text("utf-8"))["kernels"] if checkout else []
    for row in rows:
        if checkout is not None and (not only or row["kernel"] in only):
            path = checkout / row["file"]
            yield Case(row["kernel"], path, row["arguments"], row["target"], row["measured_ms"])


async def compare(case: Case) -> dict[str, Any]:
    """All figures of one kernel."""
    document = Document.parse(case.path.read_text("utf-8"))
    kernels = find_kernels(document)
    kernel = kernel_named(kernels, "kernel") or kernels[0]
    overrides = {name: parse_spec(text) for name, text in case.arguments.items()}
    options = AnalysisOptions(target=case.target, overrides=overrides)
    found = analyze_kernel(document, kernel, path=case.path, options=options)
    job = Job(
        path=case.path,
        source=document.text,
        function=kernel.qualname,
        arguments=found.arguments,
        target=found.target,
    )
    outcome = await SimulatorProfiler().profile(job)
    if isinstance(outcome, Failure):
        return {"name": case.name, "error": outcome.message}
    static = found.profile
    return {
        "name": case.name,
        "target": found.target,
        "estimated_ms": None if static is None else static.latency_ms,
        "estimated_bound": None if static is None else static.bound,
        "simulated_ms": outcome.latency_ms,
        "simulated_bound": outcome.bound,
        "measured_ms": case.measured_ms,
        "bytes": _more_bytes(outcome),
    }


def _more_bytes(profile: Profile) -> float | None:
    """HBM bytes that are executed over those that are issued."""
    issued = profile.issued.hbm_read_bytes + profile.issued.hbm_write_bytes
    moved = [profile.counters.get(f"hbm_{side}_bytes") for side in ("read", "write")]
    if not issued or None in moved:
        return None
    return sum(n for n in moved if n is not None) / issued


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Estimated, simulated and measured latencies.")
    parser.add_argument("--checkout", type=Path, help="working copy of zhang677/AccelOpt")
    parser.add_argument("--only", default="", help="NKIBench problems, separated by commas")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args(arguments)
    only = set(filter(None, options.only.split(",")))
    print(
        f"{'kernel':24}{'target':>7}{'estimated ms':>14}{'simulated ms':>14}{'measured ms':>13}"
        f"{'est./sim.':>11}{'bytes':>8}  bounds"
    )
    rows = []
    for case in cases(options.checkout, only):
        row = asyncio.run(compare(case))
        rows.append(row)
        print(_line(row), flush=True)
    ratios = [r["estimated_ms"] / r["simulated_ms"] for r in rows if r.get("estimated_ms")]
    if ratios:
        mean = exp(sum(map(log, ratios)) / len(ratios))
        off = exp(sum(abs(log(r)) for r in ratios) / len(ratios))
        print(
            f"{len(ratios)} kernels: estimated over simulated {mean:.2f} (geometric mean), "
            f"{min(ratios):.2f} to {max(ratios):.2f}; off by a factor of {off:.2f} on average"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")
    return int(len(ratios) < len(rows))


def _line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['name']:24}  {row['error']}"
    estimated, simulated = row["estimated_ms"], row["simulated_ms"]
    cells = [
        _number(estimated, 14, 3),
        _number(simulated, 14, 3),
        _number(row["measured_ms"], 13, 3),
        _number(estimated / simulated if estimated and simulated else None, 11, 2),
        _number(row["bytes"], 8, 2),
    ]
    same = row["estimated_bound"] == row["simulated_bound"]
    bounds = (
        f"{row['estimated_bound']}"
        if same
        else (f"{row['estimated_bound']}, simulated {row['simulated_bound']}")
    )
    return f"{row['name']:24}{row['target']:>7}{''.join(cells)}  {bounds}"


def _number(value: float | None, width: int, digits: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width}.{digits}f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
