"""How long a simulated latency takes, and whether abridging a trace changes it.

    latency_speed.py CHECKOUT [--only NAMES] [--repeat N] [--json FILE] [--no-full]

CHECKOUT is a working copy of github.com/zhang677/AccelOpt. Every NKIBench kernel gets a process of
its own, which traces it on shapes and schedules the trace: once abridged, as profiles do, and once
in full, to compare. Seconds are CPU time of one core, the best of the repeats; ``report`` is what
counters and attribution take on top. ``memory`` is what the process holds at its peak. Exit status
1 means that an abridged trace gave other counts, bytes, FLOPs or another latency than a full one.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from speed import each_alone, load

import accelopt_lsp.profiler

DATA = Path(accelopt_lsp.profiler.__file__).parent / "data"


def measure(checkout: Path, row: dict[str, Any], repeat: int, full: bool) -> dict[str, Any]:
    """All figures of one kernel, in this process."""
    import gc

    from accelopt_lsp.nki.arguments import LiteralSpec, TensorSpec, parse_spec
    from accelopt_lsp.nki.targets import get_target
    from accelopt_lsp.profiler.simulator import hook, kernels, timeline
    from accelopt_lsp.profiler.simulator.abridging_values import FullTraceNeeded
    from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
    from accelopt_lsp.profiler.simulator.session import Session
    from accelopt_lsp.profiler.simulator.source import Sources

    hook.install()
    path = checkout / row["file"]
    kernel = load(path, "measured_kernel").kernel
    given: dict[str, Any] = {}
    for name, text in row["arguments"].items():
        spec = parse_spec(text)
        if isinstance(spec, TensorSpec):
            given[name] = kernels.TensorInput(spec.shape, spec.dtype)
        elif isinstance(spec, LiteralSpec):
            given[name] = spec.value
        else:
            raise SystemExit(f"{row['kernel']}: argument {name} is neither tensor nor literal")
    target = get_target("trn1")

    def run(abridged: bool) -> dict[str, Any]:
        session = Session(
            target,
            kernel.dialect,
            Sources(str(path)),
            full=False,
            names=OPERATOR_NAMES,
            abridged=abridged,
        )
        gc.disable()
        start = time.process_time()
        try:
            trace = kernels.execute(kernel, [], given, session).session.trace
        except FullTraceNeeded:
            return run(False)
        traced = time.process_time()
        schedule = timeline.simulate(trace, target)
        scheduled = time.process_time()
        profile = timeline.profile_from(schedule, trace, kernel="kernel", target=target)
        reported = time.process_time()
        gc.enable()
        return {
            "instructions": len(trace),
            "trace": traced - start,
            "schedule": scheduled - traced,
            "report": reported - scheduled,
            "profile": profile.to_json(),
        }

    def best(abridged: bool) -> dict[str, Any]:
        runs = [run(abridged) for _ in range(repeat)]
        return min(runs, key=lambda r: r["trace"] + r["schedule"])

    found = best(True)
    found["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if full:
        whole = run(False)
        found["full_trace"] = whole["trace"]
        found["equal"] = whole["profile"] == found["profile"]
    del found["profile"]
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Seconds that a simulated latency takes.")
    parser.add_argument("checkout", type=Path, help="working copy of zhang677/AccelOpt")
    parser.add_argument("--only", default="", help="names of problems, separated by commas")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--repeat", type=int, default=3, help="repeats of each measurement")
    parser.add_argument("--no-full", action="store_true", help="do not compare with full traces")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    only = set(filter(None, options.only.split(",")))
    text = (DATA / "nkibench_measured.json").read_text("utf-8")
    chosen = {
        row["kernel"]: row
        for row in json.loads(text)["kernels"]
        if not only or row["kernel"] in only
    }
    if options.one:
        (row,) = chosen.values()
        print(json.dumps(measure(options.checkout, row, options.repeat, not options.no_full)))
        return 0
    print(
        f"{'kernel':24}{'instr.':>8}{'trace s':>9}{'schedule s':>12}{'together':>10}"
        f"{'report s':>10}{'memory MB':>11}{'full trace s':>14}  equal"
    )
    rows: dict[str, dict[str, Any]] = {}
    compared = ["--no-full"] if options.no_full else []
    for name, row in each_alone(__file__, options.checkout, chosen, options.repeat, *compared):
        rows[name] = row
        row["together"] = row["trace"] + row["schedule"]
        equal = {True: "yes", False: "NO", None: ""}[row.get("equal")]
        print(
            f"{name:24}{row['instructions']:8}{row['trace']:9.2f}{row['schedule']:12.2f}"
            f"{row['together']:10.2f}{row['report']:10.2f}{row['memory_mb']:11.0f}"
            f"{row.get('full_trace', float('nan')):14.2f}  {equal}",
            flush=True,
        )
    if rows:
        times = [row["together"] for row in rows.values()]
        print(f"together: median {median(times):.2f} s, at most {max(times):.2f} s")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")
    return int(len(rows) < len(chosen) or any(r.get("equal") is False for r in rows.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
