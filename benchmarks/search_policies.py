"""Does the beam help, and does the memory? Speed-up against the number of profiled candidates.

    search_policies.py [KERNEL ...] [--candidates N] [--plot FILE.svg] [--json FILE] [--markdown]

Compares, on our example kernels and at equal cost (the same number of profiled candidates):

- beam search with a memory that is empty at first (the paper's setting),
- beam search without one,
- repeated sampling: every candidate is one step away from the kernel as it was;

and, in a table of its own, the second kernel of a family (the same kernel in the other dialect)
with and without the memory that the search on the first one left.

The offline roles play, so the figures say what search and memory do, not how good a model is. A
row of a table is a kernel: its best speed-up after a quarter, half and all of the candidates, for
each policy, and the candidates that each needed for 95 % of the best speed-up of all (a dash where
it never got there). Candidates that a search did not need (it reached the floor, or had nothing
left to try) count as done. Candidates on the way are only traced, since the catalogue keeps outputs
or declines; those of each search's result are compared on an input. Evaluations that policies share
are taken from a cache; they count for each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from typing import Any

from attrs import define, evolve, field
from rich.console import Console
from rich.table import Table

from accelopt_lsp.agents.search import SearchEvent, SearchSettings
from accelopt_lsp.profiler.base import Failure, Job, Outcome, Progress
from accelopt_lsp.workbench.optimize import OptimizeRequest, optimize_kernel
from accelopt_lsp.workbench.profile import get_profiler
from accelopt_lsp.workbench.requests import KernelRequest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ON_THE_WAY, AT_THE_END = (0,), (21,)
"""Seeds by which a search asks for candidates' outputs to be compared, and for its result's."""
MEMORY, BEAM, SAMPLING = POLICIES = ("beam, memory", "beam", "sampling")
SECOND = "with the first one's memory"
REACHED = 0.95


@define
class Curve:
    """Best speed-up so far after each profiled candidate; index 0 is the kernel as it was."""

    best: list[float] = field(factory=lambda: [1.0])

    def hear(self, event: SearchEvent) -> None:
        while len(self.best) <= event.candidates:
            self.best.append(self.best[-1])
        self.best[event.candidates] = max(self.best[-1], event.speedup)

    def upto(self, count: int) -> list[float]:
        """Exactly ``count`` candidates: cut, or continued where the search had ended."""
        return [*self.best, *[self.best[-1]] * count][: count + 1]


class TracedOnTheWay:
    """The simulator, which takes the catalogue's word for outputs until a search has its result."""

    name = "simulator"

    def __init__(self) -> None:
        self.simulator = get_profiler("simulator")

    async def profile(self, job: Job, progress: Progress | None = None) -> Outcome:
        if job.seeds != ON_THE_WAY:
            return await self.simulator.profile(job, progress)
        found = await self.simulator.profile(evolve(job, seeds=()), progress)
        return found if isinstance(found, Failure) else evolve(found, correct=True)


def settings(policy: str, candidates: int, seed: int) -> SearchSettings:
    """A policy with a limit on candidates; nothing else ends a search early."""
    common = SearchSettings(
        beam=2,
        plans=6,
        iterations=candidates,
        patience=candidates,
        max_evaluations=candidates,
        budget_seconds=None,
        fix_rounds=0,
        # One after the other, so that a candidate's number says after how many it was known.
        concurrency=1,
        seed=seed,
        verify_seeds=ON_THE_WAY,
        final_seeds=AT_THE_END,
        other_scales=(),
        memory_policy="none" if policy in (BEAM, SAMPLING) else "retrieval",
    )
    if policy == SAMPLING:
        return evolve(common, beam=1, plans=candidates, iterations=1)
    return common


async def search(kernel: Path, policy: str, candidates: int, data_dir: Path, seed: int) -> Curve:
    """One search; what it learns stays in ``data_dir``."""
    curve = Curve()
    request = OptimizeRequest(
        KernelRequest(kernel), settings(policy, candidates, seed), data_dir=data_dir
    )
    report = await optimize_kernel(request, curve.hear, profiler=TracedOnTheWay())
    if report.failure is not None:
        raise SystemExit(f"{kernel}: {report.failure.message}")
    # Only what passed the final verification counts; what did not never was a speed-up.
    final = report.speedup if report.improved and report.speedup else 1.0
    curve.best = [min(value, final) for value in curve.best]
    return curve


def sibling(kernel: Path) -> Path:
    """The same kernel in the other dialect: the other member of its family."""
    other = "legacy" if kernel.parent.name == "current" else "current"
    return EXAMPLES / other / kernel.name


async def compare(
    kernel: Path, candidates: int, seed: int, memories: Path
) -> dict[str, list[float]]:
    """Curves of all policies on one kernel.

    Args:
        memories: folder with what the searches on kernels left, made where it is missing.
    """
    curves = {}
    for policy in POLICIES:
        with tempfile.TemporaryDirectory() as scratch:
            found = await search(kernel, policy, candidates, Path(scratch), seed)
            if policy == MEMORY:
                keep(Path(scratch), place_of(kernel, memories))
        curves[policy] = found.upto(candidates)
    first = sibling(kernel)
    with tempfile.TemporaryDirectory() as scratch:
        if not place_of(first, memories).exists():
            await search(first, MEMORY, candidates, Path(scratch), seed)
            keep(Path(scratch), place_of(first, memories))
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(place_of(first, memories), scratch, dirs_exist_ok=True)
        found = await search(kernel, SECOND, candidates, Path(scratch), seed)
    curves[SECOND] = found.upto(candidates)
    return curves


def place_of(kernel: Path, memories: Path) -> Path:
    return memories / f"{kernel.parent.name}-{kernel.stem}"


def keep(data_dir: Path, place: Path) -> None:
    """Keep the memory of a finished search, and not its runs."""
    place.mkdir(exist_ok=True)
    for file in data_dir.glob("memory.sqlite3*"):
        shutil.copy(file, place)


def needed(curve: Sequence[float], goal: float) -> int | None:
    """Candidates until a speed-up is reached; None if it never is."""
    return next((n for n, value in enumerate(curve) if value >= goal), None)


def mean(values: Iterable[float]) -> float:
    """Geometric mean, as speed-ups are ratios."""
    found = list(values)
    return prod(found) ** (1 / len(found))


def rows(
    results: dict[str, dict[str, list[float]]], policies: Sequence[str], candidates: int
) -> list[list[str]]:
    """Headings, a row for each kernel, and their geometric mean."""
    places = sorted({max(1, candidates // 4), max(1, candidates // 2), candidates})
    table = [["kernel", *policies, *(f"{p}: to {REACHED:.0%}" for p in policies)]]
    for name, curves in results.items():
        goal = 1 + REACHED * (max(curves[p][-1] for p in policies) - 1)
        cells = [" / ".join(f"{curves[p][n]:.2f}" for n in places) for p in policies]
        counts = [needed(curves[p], goal) for p in policies]
        table.append([name, *cells, *("-" if n is None else str(n) for n in counts)])
    means = [
        " / ".join(f"{mean(c[p][n] for c in results.values()):.2f}" for n in places)
        for p in policies
    ]
    table.append(["geometric mean", *means, *[""] * len(policies)])
    return table


def show(title: str, table: Sequence[Sequence[str]], *, markdown: bool) -> None:
    if markdown:
        head, *body = table
        print(f"\n{title}\n")
        for row in (head, ["---", *["---:"] * (len(head) - 1)], *body):
            print(f"| {' | '.join(row)} |")
        return
    drawn = Table(title=title)
    for number, heading in enumerate(table[0]):
        drawn.add_column(heading, justify="right" if number else "left")
    for row in table[1:]:
        drawn.add_row(*row)
    Console(width=150).print(drawn)


def report(results: dict[str, dict[str, list[float]]], candidates: int, *, markdown: bool) -> None:
    places = sorted({max(1, candidates // 4), max(1, candidates // 2), candidates})
    after = f"best speed-up after {' / '.join(map(str, places))} candidates"
    show(after, rows(results, POLICIES, candidates), markdown=markdown)
    print()
    for first, second in ((MEMORY, BEAM), (BEAM, SAMPLING), (MEMORY, SAMPLING)):
        print(verdict(results, first, second))
    title = f"the second kernel of a family: {after}"
    show(title, rows(results, (SECOND, MEMORY), candidates), markdown=markdown)
    print()
    print(verdict(results, SECOND, MEMORY))


def verdict(results: dict[str, dict[str, list[float]]], first: str, second: str) -> str:
    """Plainly, whether one policy wins: by its result, and by the candidates it needed."""
    better = worse = sooner = later = 0
    for curves in results.values():
        ours, theirs = curves[first][-1], curves[second][-1]
        better += ours > theirs * 1.005
        worse += ours < theirs * 0.995
        goal = 1 + REACHED * (min(ours, theirs) - 1)
        count, other = needed(curves[first], goal), needed(curves[second], goal)
        assert count is not None and other is not None
        sooner += count < other
        later += count > other
    total = len(results)
    return (
        f"{first} against {second}: better on {better}, worse on {worse} of {total} kernels; to "
        f"{REACHED:.0%} of what both reach sooner on {sooner}, later on {later}"
    )


def plot(results: dict[str, dict[str, list[float]]], file: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    columns = min(3, len(results))
    rows = -(-len(results) // columns)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "accelopt"}):
        figure, axes = pyplot.subplots(
            rows, columns, figsize=(3.4 * columns, 2.5 * rows), squeeze=False, sharex=True
        )
        for axis in axes.flat[len(results) :]:
            axis.set_visible(False)
        for axis, (name, curves) in zip(axes.flat, results.items(), strict=False):
            for policy, style in zip((SECOND, *POLICIES), ("-", "-.", "--", ":"), strict=True):
                axis.step(range(len(curves[policy])), curves[policy], style, where="post")
            axis.set_title(name, fontsize=9)
            axis.grid(alpha=0.3)
        names = [f"beam, {SECOND}", *POLICIES]
        figure.legend(names, fontsize=8, ncols=len(names), loc="upper center")
        figure.supxlabel("profiled candidates", fontsize=9)
        figure.supylabel("best speed-up", fontsize=9)
        figure.tight_layout(rect=(0, 0, 1, 0.95))
        figure.savefig(file, metadata={"Date": None})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernels", nargs="*", help="such as legacy/softmax; all by default")
    parser.add_argument("--candidates", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    parser.add_argument("--markdown", action="store_true", help="tables as in the documentation")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    files = sorted(p for p in EXAMPLES.glob("*/*.py") if not p.stem.endswith("_reference"))
    named = {f"{p.parent.name}/{p.stem}": p for p in files}
    unknown = set(options.kernels) - named.keys()
    if unknown:
        parser.error(f"no example {', '.join(sorted(unknown))}; there are: {', '.join(named)}")
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        memories = Path(folder)
        for name in options.kernels or named:
            done = compare(named[name], options.candidates, options.seed, memories)
            results[name] = asyncio.run(done)
            print(f"{name}: done", file=sys.stderr, flush=True)
    report(results, options.candidates, markdown=options.markdown)
    if options.plot is not None:
        plot(results, options.plot)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
