"""How fast static analysis is, on the largest files of a checkout of nki-library.

    analysis_speed.py CHECKOUT [--files N] [--edits N] [--json FILE] [--no-check]

Per file, in one process, with every cache empty where it says cold:

``syntax``   parsing the text and the rules that its tree decides (the editor's first tier)
``cold``     parsing and full analysis, files that it imports included
``edit``     full analysis after one typed character, at places spread over the file
``known``    full analysis of one kernel with arguments (``nki_library_arguments.toml``): cold, edit

and for all files, in processes of their own, ``accelopt check``: with an empty cache, and with
a full one.

Times within this process are CPU times: what a clock on the wall shows where nobody else uses
the machine. ``check`` is timed by the clock; the CPU time of its processes stands beside it.
``unit`` is the time of a fixed piece of Python, measured between the files: what slows that down
slows everything down.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from static_cases import table_spec

from accelopt_lsp.analysis import AnalysisOptions, analyze, analyze_syntax
from accelopt_lsp.analysis.caches import clear_caches, settle_collector
from accelopt_lsp.analysis.files import analyze_kernel
from accelopt_lsp.analysis.kernels import function_as_kernel
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.workspace import Workspace
from accelopt_lsp.nki.arguments import ArgumentSpec, parse_spec

HERE = Path(__file__).parent
PACKAGE = "src/nkilib_src/nkilib"
BUDGETS = {
    "syntax": 100.0,
    "cold": 500.0,
    "edit": 200.0,
    "known cold": 500.0,
    "known edit": 200.0,
    "check cold": 8000.0,
    "check warm": 1500.0,
}
"""Limits in ms on two cores: of the 95th percentile for files, of the time for ``check``."""


def largest(checkout: Path, count: int) -> list[Path]:
    """The largest Python files."""
    files = sorted(checkout.rglob("*.py"), key=lambda p: (-p.stat().st_size, p))
    return files[:count]


def known_calls(checkout: Path) -> Iterator[tuple[Path, str, Mapping[str, ArgumentSpec]]]:
    """File, function and arguments of the calls of ``nki_library_arguments.toml``."""
    data = tomllib.loads((HERE / "conformance/nki_library_arguments.toml").read_text("utf-8"))
    for case in data["case"]:
        file, _, name = case["kernel"].partition("::")
        given = {k: table_spec(_shapes(v), HERE) for k, v in case.get("arguments", {}).items()}
        path = checkout / PACKAGE / file
        if path.is_file():
            yield path, name, {k: parse_spec(text) for k, text in given.items()}


def _shapes(value: Any) -> Any:
    """An entry of the table without the values of its tensors."""
    if isinstance(value, dict):
        return value.get("tensor") or {k: _shapes(v) for k, v in value.items()}
    return [_shapes(v) for v in value] if isinstance(value, list) else value


def edits(text: str, count: int) -> Iterator[str]:
    """The text with one more character in it, at places spread evenly over it."""
    for number in range(count):
        place = len(text) * (2 * number + 1) // (2 * count)
        while place < len(text) and not (text[place - 1].isalnum() and not text[place].isalnum()):
            place += 1
        yield text[:place] + "1" + text[place:]


def milliseconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def unit() -> float:
    """A fixed piece of Python, in ms."""
    return milliseconds(lambda: sum({i: str(i) for i in range(60_000)}.keys()))


def measure(path: Path, count: int) -> dict[str, list[float]]:
    """Both tiers of one file as it stands, in ms."""
    text = path.read_text("utf-8")
    clear_caches()
    syntax = milliseconds(lambda: analyze_syntax(Document.parse(text)))
    cold, edited = tiers(text, count, partial(analyze, path=path))
    return {"syntax": [syntax], "cold": [cold], "edit": edited}


def measure_call(
    path: Path, name: str, arguments: Mapping[str, ArgumentSpec], count: int
) -> dict[str, list[float]]:
    """Full analysis of one kernel with known arguments, in ms."""
    options = AnalysisOptions(overrides=arguments)

    def run(document: Document, workspace: Workspace) -> None:
        kernel = function_as_kernel(document, name)
        if kernel is not None:
            analyze_kernel(document, kernel, path=path, options=options, workspace=workspace)

    cold, edited = tiers(path.read_text("utf-8"), count, run)
    return {"known cold": [cold], "known edit": edited}


def tiers(text: str, count: int, analysis: Callable[..., Any]) -> tuple[float, list[float]]:
    """With empty caches, and after each of some edits as an editor's worker sees them."""
    clear_caches()
    workspace = Workspace()
    documents = []
    cold = milliseconds(lambda: documents.append(Document.parse(text)))
    cold += milliseconds(lambda: analysis(documents[0], workspace=workspace))

    def run(new: str) -> None:
        workspace.refresh()
        analysis(documents[0].updated(new), workspace=workspace)

    return cold, [milliseconds(partial(run, new)) for new in edits(text, count)]


def check(checkout: Path) -> dict[str, list[float]]:
    """``accelopt check`` over everything, each run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"ACCELOPT_CACHE_DIR": folder}
        command = [sys.executable, "-m", "accelopt_lsp", "check", "--jobs", "2", str(checkout)]

        cpu: list[float] = []

        def run() -> float:
            start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(command, env=environment, capture_output=True, check=False)
            if done.returncode not in (0, 1):
                raise RuntimeError(done.stderr.decode())
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            cpu.append(used * 1e3)
            return (time.perf_counter() - start) * 1e3

        wall = [run() for _ in range(4)]
        return {
            "check cold": wall[:1],
            "cold CPU": cpu[:1],
            "check warm": wall[1:],
            "warm CPU": cpu[1:],
        }


def percentile(values: list[float], share: float) -> float:
    """The smallest value that this share of all values does not exceed."""
    return sorted(values)[math.ceil(len(values) * share) - 1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--edits", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-check", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    checkout = options.checkout.resolve()
    everything: dict[str, list[float]] = {}
    rows: dict[str, dict[str, list[float]]] = {}
    units = [unit()]
    analyze(Document.parse("import nki\n"))
    settle_collector()

    def note(name: str, figures: dict[str, list[float]]) -> None:
        rows[name] = figures
        units.append(unit())
        for tier, values in figures.items():
            everything.setdefault(tier, []).extend(values)
        shown = "  ".join(f"{tier} {max(values):.0f}" for tier, values in figures.items())
        print(f"{name.rpartition('/')[2]:52s} {shown}", flush=True)

    for path in largest(checkout, options.files):
        note(path.relative_to(checkout).as_posix(), measure(path, options.edits))
    for path, function, arguments in known_calls(checkout):
        name = f"{path.relative_to(checkout).as_posix()}::{function}"
        while name in rows:
            name += "+"
        note(name, measure_call(path, function, arguments, options.edits))
    if not options.no_check:
        everything |= check(checkout)
    print(f"\nunit {statistics.median(units):.1f} ms, {min(units):.1f} to {max(units):.1f}")
    print(f"{'ms':12s} {'n':>4s} {'p50':>8s} {'p95':>8s} {'max':>8s} {'budget':>8s}")
    missed = []
    for tier, values in everything.items():
        p95 = percentile(values, 0.95)
        print(
            f"{tier:12s} {len(values):4d} {percentile(values, 0.5):8.1f} {p95:8.1f} "
            f"{max(values):8.1f} {BUDGETS.get(tier, math.nan):8.0f}"
        )
        if p95 > BUDGETS.get(tier, math.inf):
            missed.append(tier)
    if options.json is not None:
        data = {"files": rows, "all": everything, "unit": units}
        options.json.write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    print("over budget: " + ", ".join(missed) if missed else "all within budget")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
