"""Whether static analysis counts what the simulator issues, on kernels that others wrote.

    static_counts.py [--nkibench CHECKOUT] [--samples CHECKOUT] [--sdk CHECKOUT]
        [--sdk-legacy CHECKOUT] [--nki-library CHECKOUT] [--only TEXT] [--json FILE]

Checkouts are working copies of github.com/zhang677/AccelOpt, aws-neuron/nki-samples,
aws-neuron/aws-neuron-sdk (as it is now, and at tag v2.26.0) and aws-neuron/nki-library; nothing of
theirs is copied into the project. The SDK's unit tests are compared too, a row a file. Every kernel
gets a process of its own, which traces it on shapes in the simulator and analyzes the same text
with the same arguments, and compares: instructions, elements, bytes by route, DMA descriptors,
FLOPs of products and of transposes, loop iterations, and engine time.

One row a kernel: ``equal``; ``partly`` where analysis says that there is something it does not
know, and why; ``DIFFERS`` where a figure that it claims is another one; ``failed`` where there is
no trace to compare with, ``no trace`` where that is as it must be (examples of what is rejected).
In front of the name are the call sites that analysis knows, of those that the trace reached: a call
site (file, line, column) is reached if the simulator issued instructions for it, and known if
analysis counted as many instructions for it as the simulator did. At the end: totals by collection,
and the reasons for what analysis does not know, by the call sites that are lost with them. Exit
status 1 means that a claimed figure differs or that a kernel failed; 2 that there was nothing to
compare.

    static_counts.py --nkibench ~/AccelOpt --only matmul --sites

``--sites`` lists the call sites that analysis does not know, with the figures of both.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from static_cases import CONFORMANCE, LIBRARY, Call, Case, calls_of, find_cases

Place = tuple[str, int, int]
"""File, line and column (from 0) of a call."""
OUTCOMES = ("equal", "partly", "DIFFERS", "failed", "no trace")
FIGURES = (
    "hbm_read_bytes",
    "hbm_write_bytes",
    "dma_descriptors",
    "matmul_flops",
    "transpose_flops",
)


class Loops(ast.NodeTransformer):
    """Lets every ``for`` say how often its body runs."""

    def __init__(self, file: str) -> None:
        self.file = file

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        where = [self.file, node.lineno, ast.unparse(node.target)]
        call = ast.Call(
            ast.Name("__iterations__", ast.Load()), [node.iter, *map(ast.Constant, where)], []
        )
        for part in (call, call.func, *call.args[1:]):
            ast.copy_location(part, node.iter)
        node.iter = call
        return node


def counting_loops(root: Path) -> tuple[Any, Counter[tuple[str, int, str]]]:
    """Instrument files below a folder; gives what changes a tree, and where counts arrive."""
    import builtins
    import importlib.machinery

    from accelopt_lsp.profiler.simulator import state

    counts: Counter[tuple[str, int, str]] = Counter()

    def iterations(items: Any, file: str, line: int, name: str) -> Iterator[Any]:
        key = (file, line, name)
        counts[key] += 0
        for item in items:
            # Programs of a grid that run on another core are not traced.
            session = state.current()
            counts[key] += session is None or session.tracing
            yield item

    builtins.__iterations__ = iterations  # type: ignore[attr-defined]
    loader = importlib.machinery.SourceFileLoader
    compiled = loader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        path = self.get_filename(fullname)
        if not Path(path).is_relative_to(root):
            return compiled(self, fullname)
        tree = Loops(path).visit(ast.parse(Path(path).read_bytes()))
        return compile(tree, path, "exec", dont_inherit=True)

    loader.get_code = get_code  # type: ignore[method-assign]
    return lambda tree, file: Loops(file).visit(tree), counts


def traced(case: Case, call: Call) -> dict[str, Any]:
    """What the simulator issues: (issue, times), and instructions by call site."""
    from accelopt_lsp.nki.arguments import parse_spec
    from accelopt_lsp.nki.targets import get_target
    from accelopt_lsp.profiler.base import Limits
    from accelopt_lsp.profiler.simulator import kernels
    from accelopt_lsp.profiler.simulator.given import from_spec
    from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
    from accelopt_lsp.profiler.simulator.session import Session
    from accelopt_lsp.profiler.simulator.source import Sources

    kernel = kernel_of(case, call)
    file = file_of(case, call)
    target = (
        get_target(call.target)
        if call.target
        else kernels.default_target(kernel.dialect, kernel.platform)
    )
    folder = Path(file).parent
    given = {k: from_spec(parse_spec(v), call.module, folder) for k, v in call.arguments.items()}
    session = Session(
        target,
        kernel.dialect,
        Sources(file),
        full=False,
        instruction_limit=Limits().instructions,
        names=OPERATOR_NAMES,
    )
    session.following = any(t.values is not None for t in kernels.tensor_inputs([*given.values()]))
    sites = counting_sites(Session)
    kernels.execute(kernel, [], given, session, call.grid)
    places = {site: at for (_, at), site in session.sources.sites.items()}
    by_place: Counter[Place] = Counter()
    for site, count in sites.items():
        line, _, column, _ = list(site.code.co_positions())[places[site] // 2]
        by_place[site.file, line or site.own_line, column or 0] += count
    codes = Counter(code for code, _ in session.trace.records)
    issues = [(session.trace.templates[code].issue, times) for code, times in codes.items()]
    if sum(by_place.values()) != len(session.trace.records):
        raise AssertionError("instructions that no call site issued")
    return {"issues": issues, "sites": by_place, "target": target, "file": file}


def counting_sites(session: Any) -> Counter[Any]:
    """Let a session's class say which call sites issue how many instructions."""
    sites: Counter[Any] = Counter()
    run, issue, locate = session.run, session._issue, session.locate
    current: list[Any] = [None]
    located: list[Any] = [None]

    def counted_run(
        self: Any, plan: Any, bound: Any, result: Any, site: Any, *rest: Any, **named: Any
    ) -> None:
        before, current[0] = current[0], site
        try:
            run(self, plan, bound, result, site, *rest, **named)
        finally:
            current[0] = before

    def counted_issue(self: Any, *given: Any, **named: Any) -> None:
        before = len(self.records)
        issue(self, *given, **named)
        sites[current[0] or located[0]] += len(self.records) - before

    def noted_locate(self: Any, frame: Any) -> Any:
        found = locate(self, frame)
        located[0] = found[0]
        return found

    session.run, session._issue, session.locate = counted_run, counted_issue, noted_locate
    return sites


def kernel_of(case: Case, call: Call) -> Any:
    """The kernel as an object of the simulator."""
    from accelopt_lsp.analysis.names import detect_dialect
    from accelopt_lsp.analysis.syntax import Document
    from accelopt_lsp.nki.dialects import Dialect
    from accelopt_lsp.profiler.simulator import kernels

    found = call.function or getattr(call.module, case.function)
    kernel = kernels.unwrap(found)
    if kernel is None:
        text = Path(case.file).read_text("utf-8")
        kernel = kernels.Kernel(found, detect_dialect(Document.parse(text)) or Dialect.CURRENT)
    return kernel


def file_of(case: Case, call: Call) -> str:
    """File that the kernel's function stands in, which the case's file may have it from."""
    kernel = kernel_of(case, call)
    file: str = kernel.function.__code__.co_filename
    return file


def place_of(node: ast.AST, file: str) -> Place:
    """Where Python says that a call is: at the attribute, if that has a line of its own."""
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        end = node.func.end_lineno or line
        if end != node.func.value.end_lineno:
            return file, end, (node.func.end_col_offset or 0) - len(node.func.attr)
    return file, line, column


def analyzed(case: Case, call: Call, target: Any) -> Any:
    """The machine after analysis of the same text with the same arguments."""
    from accelopt_lsp.analysis.kernels import function_as_kernel
    from accelopt_lsp.analysis.runner import run_kernel
    from accelopt_lsp.analysis.syntax import Document
    from accelopt_lsp.analysis.workspace import Workspace
    from accelopt_lsp.nki.arguments import KernelArguments, parse_spec

    path = Path(file_of(case, call))
    document = Document.parse(path.read_text("utf-8"))
    function = call.function.function.__qualname__ if call.function else case.function
    kernel = function_as_kernel(document, function.replace(".<locals>", ""))
    if kernel is None:
        raise AssertionError(f"analysis finds no function {function}")
    values = {name: parse_spec(text) for name, text in call.arguments.items()}
    arguments = KernelArguments(values, grid=call.grid)
    return run_kernel(document, kernel, arguments, target, path=path, workspace=Workspace())


def routes(issues: list[tuple[Any, int]]) -> dict[str, int]:
    """Bytes that DMAs move, by route and direction."""
    found: Counter[str] = Counter()
    for issue, times in issues:
        dma = issue.work.dma
        if dma is not None:
            found[f"bytes read, {dma.route.value}"] += times * dma.read_bytes
            found[f"bytes written, {dma.route.value}"] += times * dma.write_bytes
    return dict(found)


def compare(case: Case) -> dict[str, Any]:
    """One case, in this process."""
    from accelopt_lsp.profiler.simulator import hook

    sys.path.insert(0, str(CONFORMANCE))
    hook.install()
    root = Path(case.checkout)
    change, counts = counting_loops(root)
    with tempfile.TemporaryDirectory() as scratch:
        calls = calls_of(case, lambda tree: change(tree, case.file), Path(scratch))
        found = []
        for call in calls:
            counts.clear()
            start = time.perf_counter()
            trace = traced(case, call)
            between = time.perf_counter()
            machine = analyzed(case, call, trace["target"])
            end = time.perf_counter()
            result = compared(case, trace, machine, counts)
            result["seconds"] = {
                "trace": round(between - start, 2),
                "analysis": round(end - between, 2),
            }
            found.append(result | {"arguments": call.arguments})
    if not found:
        return {"why": "no kernel is launched", "explained": "no test of it launches a kernel"}
    return joined(found)


def joined(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Several launches of one file as one row."""
    if len(rows) == 1:
        return rows[0]
    result = dict(rows[0])
    for row in rows[1:]:
        result["complete"] = result["complete"] and row["complete"]
        for part in ("differs", "more"):
            result[part] = {**result[part], **row[part]}
        for part in ("instructions", "reached", "known", "sites", "unknowns"):
            result[part] = result[part] + row[part]
        result["seconds"] = {
            part: round(value + row["seconds"][part], 2)
            for part, value in result["seconds"].items()
        }
    return result | {"arguments": [row["arguments"] for row in rows]}


def compared(
    case: Case, trace: dict[str, Any], machine: Any, counts: Counter[tuple[str, int, str]]
) -> dict[str, Any]:
    """Figures of both sides, and what differs."""
    from accelopt_lsp.analysis.workload import build_workload, issues_of
    from accelopt_lsp.nki.issued import count_issued

    workload = build_workload(machine)
    found, wanted = workload.issued, count_issued(trace["issues"], trace["target"])
    sites: Counter[Place] = Counter()
    for record in machine.records:
        place = place_of(*located(record, trace["file"]))
        sites[place] += record.times * len(record.lowered.issues)
    figures: dict[str, tuple[Any, Any]] = {}
    for part in ("instructions", "elements"):
        mine, theirs = dict(getattr(found, part)), dict(getattr(wanted, part))
        for name in sorted({*mine, *theirs}):
            figures[f"{part} {name}"] = (mine.get(name, 0), theirs.get(name, 0))
    for name in FIGURES:
        figures[name.replace("_", " ")] = (getattr(found, name), getattr(wanted, name))
    mine, theirs = routes(issues_of(machine.records)), routes(trace["issues"])
    for name in sorted({*mine, *theirs}):
        figures[name] = (mine.get(name, 0), theirs.get(name, 0))
    for name in sorted({*found.engine_ns, *wanted.engine_ns}):
        pair = (found.engine_ns.get(name, 0.0), wanted.engine_ns.get(name, 0.0))
        figures[f"{name} ns"] = (round(pair[0], 3), round(pair[1], 3))
    for visit in workload.loops:
        key = (trace["file"], visit.line, visit.variable)
        if visit.total_trips is not None and key in counts:
            figures[f"iterations of line {visit.line}"] = (visit.total_trips, counts[key])
    return {
        "complete": workload.complete,
        "differs": {name: pair for name, pair in figures.items() if not same(*pair)},
        "more": {name: pair for name, pair in figures.items() if pair[0] > pair[1] * 1.000001},
        "instructions": sum(count for _, count in trace["issues"]),
        "reached": len(trace["sites"]),
        "known": sum(sites[place] == count for place, count in trace["sites"].items()),
        "sites": [
            [short(place, case), sites[place], trace["sites"][place]]
            for place in sorted({*sites, *trace["sites"]})
            if sites[place] != trace["sites"][place]
        ],
        "unknowns": [[line, reason] for line, reason in workload.unknowns],
    }


def explanation(case: Case, error: Exception) -> str:
    """Why there can be no trace of a published example; empty if that is not known."""
    from sdk_examples import EXPLAINED

    from accelopt_lsp.profiler.simulator.errors import KernelRejected

    if isinstance(error, ModuleNotFoundError) and error.name in ("scipy", "torch"):
        return f"it needs {error.name}, which is not installed"
    name = Path(case.file).name
    if name == "layout-violation.py" and isinstance(error, KernelRejected):
        return f"an example of what is rejected: {error}"
    return EXPLAINED.get((name, type(error)), "")


def located(record: Any, file: str) -> tuple[ast.AST, str]:
    """The call that a record is of, and its file."""
    return record.call, file if record.origin is None else record.origin.path


def same(mine: float, theirs: float) -> bool:
    """Counts are equal; times but for rounding."""
    return abs(mine - theirs) <= 1e-6 * max(abs(mine), abs(theirs))


def short(place: Place, case: Case) -> str:
    """A place for people: columns from 1."""
    file, line, column = place
    path = Path(file)
    name = path.relative_to(case.checkout) if path.is_relative_to(case.checkout) else path
    return f"{name.as_posix().removeprefix(f'{LIBRARY}/nkilib/')}:{line}:{column + 1}"


def outcome(row: dict[str, Any]) -> str:
    """One word for a row.

    Analysis that names something it does not know claims no totals: its counts are what there is at
    least. So it differs only where it counts more than the simulator.
    """
    if "why" in row:
        return "no trace" if row.get("explained") else "failed"
    if row["complete"]:
        return "DIFFERS" if row["differs"] or row["known"] < row["reached"] else "equal"
    more = row["more"] or any(mine > theirs for _, mine, theirs in row["sites"])
    return "DIFFERS" if more else "partly"


def detail(row: dict[str, Any]) -> str:
    """What differs, or what is not known."""
    if "why" in row:
        return str(row.get("explained") or row["why"])
    if outcome(row) == "DIFFERS":
        chosen = row["differs"] if row["complete"] else row["more"]
        named = [f"{name} {mine}, traced {theirs}" for name, (mine, theirs) in chosen.items()]
        named += [f"{place} {mine}, traced {theirs}" for place, mine, theirs in row["sites"]]
        return "; ".join(named[:4]) + ("; ..." if len(named) > 4 else "")
    if row["unknowns"]:
        line, reason = row["unknowns"][0]
        rest = len(row["unknowns"]) - 1
        return f"line {line}: {reason}" + (f" (and {rest} more)" if rest else "")
    return ""


def run_case(case: Case, seconds: int) -> dict[str, Any]:
    """One case in a process of its own."""
    command = [sys.executable, __file__, "--one", case.to_json()]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        return {"why": f"longer than {seconds} s"}
    if done.returncode == 0:
        found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return found
    lines = done.stderr.strip().splitlines() or [""]
    return {"why": f"ended with {done.returncode}: {lines[-1]}"}


def child(text: str) -> int:
    """Compare one case and print the result as JSON."""
    case = Case(**json.loads(text))
    try:
        result = compare(case)
    except Exception as error:  # noqa: BLE001 - whatever a kernel raises belongs into the table
        result = {"why": f"{type(error).__name__}: {error}", "explained": explanation(case, error)}
    print(json.dumps(result))
    return 0


def report(rows: dict[Case, dict[str, Any]]) -> None:
    """Totals by collection, and reasons by the call sites lost."""
    heads = ("kernels", *OUTCOMES, "sites", "known")
    print(f"\n{'collection':12}" + "".join(f"{head:>9}" for head in heads) + f"{'share':>8}")
    for name in dict.fromkeys(case.collection for case in rows):
        chosen = [row for case, row in rows.items() if case.collection == name]
        number = Counter(map(outcome, chosen))
        reached = sum(row.get("reached", 0) for row in chosen)
        known = sum(row.get("known", 0) for row in chosen)
        figures = (len(chosen), *(number[word] for word in OUTCOMES), reached, known)
        share = f"{known / reached:8.1%}" if reached else ""
        print(f"{name:12}" + "".join(f"{figure:9}" for figure in figures) + share)
    lost: dict[str, int] = defaultdict(int)
    for row in rows.values():
        missing = row.get("reached", 0) - row.get("known", 0)
        # All of a kernel's losses go to its first reason: the others often follow from it.
        if missing and row["unknowns"]:
            lost[row["unknowns"][0][1]] += missing
    if lost:
        print("\ncall sites lost, by the first reason of their kernel")
    for reason, count in sorted(lost.items(), key=lambda item: -item[1])[:25]:
        print(f"{count:7}  {reason}")


def main(arguments: list[str] | None = None) -> int:
    """Compare all cases; 0 if nothing that is claimed differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nkibench", type=Path, help="checkout of zhang677/AccelOpt")
    parser.add_argument("--samples", type=Path, help="checkout of aws-neuron/nki-samples")
    parser.add_argument("--sdk", type=Path, help="checkout of aws-neuron/aws-neuron-sdk")
    parser.add_argument("--sdk-legacy", type=Path, help="the same at tag v2.26.0")
    parser.add_argument("--nki-library", type=Path, help="checkout of aws-neuron/nki-library")
    parser.add_argument("--only", default="", help="compare kernels whose name contains this")
    parser.add_argument("--json", type=Path, help="write everything to a file as well")
    parser.add_argument("--sites", action="store_true", help="list call sites that are not known")
    parser.add_argument("--seconds", type=int, default=300, help="limit of one kernel")
    parser.add_argument("--jobs", type=int, default=1, help="kernels side by side")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        return child(options.one)
    with tempfile.TemporaryDirectory() as scratch:
        library = options.nki_library
        if library is not None:
            library = repaired(library, Path(scratch))
        given = (options.nkibench, options.samples, options.sdk, options.sdk_legacy, library)
        cases = [
            case
            for case in find_cases(*(None if path is None else path.resolve() for path in given))
            if options.only in f"{case.collection} {case.name}"
        ]
        rows = run_all(cases, options)
    if not rows:
        print("nothing to compare: name a checkout (--help says which)", file=sys.stderr)
        return 2
    report(rows)
    if options.json:
        listed = [
            {"collection": case.collection, "kernel": case.name, "outcome": outcome(row), **row}
            for case, row in rows.items()
        ]
        options.json.write_text(json.dumps(listed, indent=1) + "\n", "utf-8")
    return int(any(outcome(row) in ("DIFFERS", "failed") for row in rows.values()))


def repaired(checkout: Path, scratch: Path) -> Path:
    """A copy of nki-library in which text that stands twice behind a docstring is removed."""
    sys.path.insert(0, str(CONFORMANCE))
    import nki_library

    copy = scratch / "nki-library"
    shutil.copytree(checkout / "src", copy / "src")
    nki_library.repair(copy)
    return copy


def run_all(cases: list[Case], options: argparse.Namespace) -> dict[Case, dict[str, Any]]:
    """One row a case, printed as it comes."""
    rows: dict[Case, dict[str, Any]] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for case, row in zip(
            cases, pool.map(lambda c: run_case(c, options.seconds), cases), strict=True
        ):
            rows[case] = row
            share = f"{row['known']}/{row['reached']}" if "known" in row else ""
            print(f"{outcome(row):8}{share:>9}  {case.collection:11} {case.name}  {detail(row)}",
                  flush=True)  # fmt: skip
            for place, mine, theirs in row.get("sites", ()) if options.sites else ():
                print(f"{'':20}{place}: {mine}, traced {theirs}")
    return rows


if __name__ == "__main__":
    sys.exit(main())
