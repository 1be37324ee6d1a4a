"""How fast the simulator runs kernels, against the NumPy reference of each.

    speed.py CHECKOUT [--only NAMES] [--json FILE] [--repeat N]

CHECKOUT is a working copy of github.com/zhang677/AccelOpt, whose NKIBench has a kernel and a
NumPy reference a problem. Every kernel gets a process of its own, in which three things are
timed after each other: tracing (shapes only), verification (tracing and computing the values of
one seed), and the reference. Figures that compare, such as the ratio of the last two, come from one
process and are the ones to trust on a shared machine; of repeats, the fastest counts. NumPy has
one thread for both, as in the processes that verify kernels.

``memory`` is what the process holds at its peak during verification, less what it held
before there were tensors, divided by the size of the kernel's inputs and outputs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

MATRIX_KERNELS = frozenset(
    "add_rmsnorm_matmul bmm lora matmul matmul_add_rmsnorm rmsnorm_matmul swiglu "
    "transpose_matmul".split()
)
"""Kernels whose reference is dominated by matrix products."""
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM")}
"""Kernels are verified by processes with one thread each, as many as there are cores."""


def problems(checkout: Path) -> dict[str, tuple[Path, Path]]:
    """Kernel and reference file by problem."""
    root = checkout / "NKIBench"
    found = {}
    for name, problem in json.loads((root / "summary.json").read_text("utf-8")).items():
        for case in problem["cases"].values():
            for entry in case["impls"]:
                found[name] = (root / entry["kernel"], root / entry["task"])
    return dict(sorted(found.items()))


def load(path: Path, name: str) -> ModuleType:
    """Import a file by path."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def peak_bytes() -> int:
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(kernel_path: Path, reference_path: Path, repeat: int) -> dict[str, Any]:
    """All figures of one kernel, in this process."""
    import numpy as np

    from accelopt_lsp.nki.targets import get_target
    from accelopt_lsp.profiler.simulator import hook, kernels, launch
    from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
    from accelopt_lsp.profiler.simulator.replay import Recording, replay
    from accelopt_lsp.profiler.simulator.session import Session
    from accelopt_lsp.profiler.simulator.source import Sources

    hook.install()
    kernel = load(kernel_path, "measured_kernel").kernel
    reference = load(reference_path, "measured_reference")
    np.random.seed(0)
    before = peak_bytes()
    inputs = reference.get_inputs()
    given = [launch.convert_input(v) for v in reference.transform_to_nki_inputs(inputs)]

    def traced(*, recording: bool) -> tuple[float, Any]:
        sources = Sources(str(kernel_path))
        target = get_target("trn1")
        session = Session(target, kernel.dialect, sources, full=False, names=OPERATOR_NAMES)
        session.recording = [] if recording else None
        start = time.perf_counter()
        outcome = kernels.execute(kernel, given, {}, session)
        return time.perf_counter() - start, outcome

    def verified() -> tuple[float, Any]:
        start = time.perf_counter()
        _, outcome = traced(recording=True)
        session = outcome.session
        notes = Recording.of(session.recording, [*session.inputs, *outcome.tensors])
        values = [v.values for v in given if isinstance(v, kernels.TensorInput)]
        replay(session, notes, zip(session.inputs, values, strict=True))
        outcome.outputs = kernels.outputs_of(outcome)
        return time.perf_counter() - start, outcome

    trace, outcome = traced(recording=False)
    instructions = len(outcome.session.trace)
    verify, outcome = verified()
    held = peak_bytes() - before
    size = sum(v.values.nbytes for v in given if isinstance(v, kernels.TensorInput))
    size += sum(array.nbytes for array in outcome.outputs)
    numpy_seconds = float("inf")
    del outcome
    # In turn, so that a slow moment of the machine meets all three.
    for _ in range(repeat):
        trace = min(trace, traced(recording=False)[0])
        verify = min(verify, verified()[0])
        start = time.perf_counter()
        reference.forward(*inputs)
        numpy_seconds = min(numpy_seconds, time.perf_counter() - start)
    return {
        "instructions": instructions,
        "trace_seconds": trace,
        "instructions_per_second": instructions / trace,
        "reference_seconds": numpy_seconds,
        "verify_seconds": verify,
        "verify_ratio": verify / numpy_seconds,
        "memory_ratio": held / size,
    }


def each_alone(
    script: str, checkout: Path, names: Iterable[str], repeat: int, *options: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a benchmark prints for one kernel (``--one``), each in a process of its own.

    Says so where one fails, and goes on.
    """
    for name in names:
        command = [sys.executable, script, str(checkout), "--only", name, "--one"]
        done = subprocess.run(
            [*command, "--repeat", str(repeat), *options],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, **ONE_THREAD},
        )
        if done.returncode:
            print(f"{name:24} failed: {done.stderr.strip().splitlines()[-1]}")
        else:
            yield name, json.loads(done.stdout.strip().splitlines()[-1])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Speed of the simulator on NKIBench.")
    parser.add_argument("checkout", type=Path, help="working copy of zhang677/AccelOpt")
    parser.add_argument("--only", default="", help="names of problems, separated by commas")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--repeat", type=int, default=3, help="repeats of each measurement")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    only = set(filter(None, options.only.split(",")))
    chosen = {n: p for n, p in problems(options.checkout).items() if not only or n in only}
    if options.one:
        (kernel, reference), *_ = chosen.values()
        print(json.dumps(measure(kernel, reference, options.repeat)))
        return 0
    print(
        f"{'kernel':24}{'instr.':>9}{'trace s':>9}{'instr/s':>9}"
        f"{'NumPy s':>9}{'verify s':>9}{'ratio':>7}{'aim':>5}{'memory':>8}"
    )
    rows = {}
    for name, row in each_alone(__file__, options.checkout, chosen, options.repeat):
        rows[name] = row
        aim = 2 if name in MATRIX_KERNELS else 4
        print(
            f"{name:24}{row['instructions']:9}{row['trace_seconds']:9.2f}"
            f"{row['instructions_per_second']:9.0f}{row['reference_seconds']:9.2f}"
            f"{row['verify_seconds']:9.2f}{row['verify_ratio']:7.2f}{aim:5}"
            f"{row['memory_ratio']:8.2f}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")
    return 0 if len(rows) == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
