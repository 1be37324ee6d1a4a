"""A fake profiler with a known cost landscape, and roles that walk in it.

The "kernel" has two numbers, ``A`` and ``B``; its latency is a function of them. Some points
fail, some give wrong outputs, evaluations finish in any order.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from attrs import define, evolve, field

from accelopt_lsp.agents.evaluate import Evaluator
from accelopt_lsp.agents.gates import Gates
from accelopt_lsp.agents.learning import Lessons
from accelopt_lsp.agents.roles import (
    Attempt,
    Candidate,
    Draft,
    Experience,
    Origin,
    Pair,
    Plan,
    Problem,
    Roles,
    Tags,
    Usage,
)
from accelopt_lsp.agents.search import (
    BeamSearch,
    Listener,
    Screen,
    SearchResult,
    SearchSettings,
)
from accelopt_lsp.agents.store import RunStore
from accelopt_lsp.nki.arguments import KernelArguments, parse_spec
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.profile import Bound, Issued, Profile, Provenance
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.base import Failure, FailureKind, Job, Outcome, Progress

TEXT = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    A = 1
    B = 1
    return x
"""
ARGUMENTS = KernelArguments(values={"x": parse_spec("f32[128,512]")})


def point(source: str) -> tuple[int, int]:
    """(A, B) of a source."""
    a, b = (int(re.search(rf"^    {n} = (-?\d+)", source, re.MULTILINE)[1]) for n in "AB")  # type: ignore[index]
    return a, b


def at(a: int, b: int, comment: str = "") -> str:
    """The kernel's text at a point."""
    return TEXT.replace("A = 1", f"A = {a}{comment}").replace("B = 1", f"B = {b}")


def latency(a: int, b: int) -> float:
    """A valley with its lowest point, 1 ms, at (6, 4)."""
    return 1.0 + 0.3 * abs(a - 6) + 0.2 * abs(b - 4)


@define
class FakeProfiler:
    """Profiles points of the landscape and counts what it is asked for.

    Attributes:
        fails: points where tracing fails.
        wrong: points whose outputs are wrong.
        wrong_late: points whose outputs are wrong on other seeds than the first.
        shuffle: seed of the order in which evaluations finish; None for at once.
        hold_after: calls after so many never finish.
        held: released once for each of these.
    """

    fails: frozenset[tuple[int, int]] = frozenset()
    wrong: frozenset[tuple[int, int]] = frozenset()
    wrong_late: frozenset[tuple[int, int]] = frozenset()
    shuffle: int | None = None
    name: str = "fake"
    calls: list[tuple[tuple[int, int], tuple[int, ...]]] = field(factory=list)
    running: int = 0
    most_running: int = 0
    cancelled: int = 0
    hold_after: int | None = None
    held: asyncio.Semaphore = field(factory=lambda: asyncio.Semaphore(0))

    async def profile(self, job: Job, progress: Progress | None = None) -> Outcome:
        a, b = point(job.source)
        self.calls.append(((a, b), job.seeds))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.hold_after is not None and len(self.calls) > self.hold_after:
                self.held.release()
                await asyncio.Event().wait()
            if self.shuffle is not None:
                wait = random.Random(f"{self.shuffle}{a}{b}{job.seeds}").random()
                await asyncio.sleep(0.003 * wait)
            else:
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        if (a, b) in self.fails:
            return Failure(FailureKind.REJECTED, f"SBUF overflow: block of {b}", line=8)
        correct = None
        if job.seeds:
            bad = (a, b) in self.wrong or (set(job.seeds) - {0} and (a, b) in self.wrong_late)
            correct = not bad
        return profile_of(a, b, correct)


def profile_of(a: int, b: int, correct: bool | None = None) -> Profile:
    return Profile(
        kernel="kernel",
        target="trn1",
        backend="fake",
        provenance=Provenance.SIMULATED,
        latency_ms=latency(a, b),
        bound=Bound.DMA,
        correct=correct,
        issued=Issued(
            instructions={"dma_copy": 2},
            hbm_read_bytes=128 * 512 * 4,
            hbm_write_bytes=128 * 512 * 4,
        ),
    )


@define
class Walker:
    """Plans single steps in the landscape, best guess by ``seed``, and carries them out."""

    steps: tuple[tuple[int, int], ...] = ((1, 0), (0, 1), (-1, 0), (0, -1), (2, 0), (0, 3))
    name: str = "walker"
    seen_experiences: list[tuple[str, ...]] = field(factory=list)
    planned: list[tuple[str, int]] = field(factory=list)
    told_fruitless: list[tuple[str, tuple[str, ...]]] = field(factory=list)
    variants: bool = True
    spent: Usage = Usage(calls=1, tokens=10, cost_usd=0.5)

    @property
    def usage(self) -> Usage:
        return self.spent

    async def plan(
        self,
        problem: Problem,
        candidate: Candidate,
        experiences: Sequence[Experience],
        count: int,
        *,
        seed: int,
        tried: Sequence[Plan] = (),
        fruitless: Sequence[Plan] = (),
    ) -> Sequence[Plan]:
        self.told_fruitless.append((candidate.id, tuple(p.title for p in fruitless)))
        self.seen_experiences.append(tuple(e.id for e in experiences))
        self.planned.append((candidate.id, count))
        done = {plan.title for plan in tried}
        plans = [
            Plan(
                f"step {da},{db}",
                "because",
                parameters={"a": da, "b": db},
                experiences=tuple(e.id for e in experiences[:1]),
            )
            for da, db in self.steps
        ]
        left = [plan for plan in plans if plan.title not in done]
        random.Random(seed).shuffle(left)
        return left[:count]

    async def execute(
        self, problem: Problem, candidate: Candidate, plan: Plan, *, variant: int, seed: int
    ) -> Draft:
        a, b = point(candidate.source)
        a, b = a + plan.parameters["a"], b + plan.parameters["b"]
        return Draft(at(a, b + (variant if self.variants else 0), f"  # try {variant}"))

    async def fix(self, problem: Problem, attempt: Attempt, *, seed: int) -> Draft | None:
        if attempt.source is None or "SBUF" not in (attempt.error or ""):
            return None
        a, b = point(attempt.source)
        return Draft(at(a, b - 1))

    async def summarize(self, problem: Problem, pair: Pair, *, run: str) -> Experience:
        direction = "do" if pair.helpful else "avoid"
        title = f"{direction} {pair.attempt.plan.title}"
        return Experience(
            id=title.replace(" ", "-"),
            title=title,
            text="a lesson",
            rewrite=title,
            ratio=pair.ratio,
            helpful=pair.helpful,
            tags=Tags(bottleneck="dma", dialect="legacy", target="trn1"),
            origin=Origin(run=run),
        )


def roles(walker: Walker | None = None) -> Roles:
    agent = walker or Walker()
    return Roles(agent, agent, agent, agent)


def problem(text: str = TEXT) -> Problem:
    return Problem(
        path=Path("kernel.py"),
        text=text,
        function="kernel",
        arguments=ARGUMENTS,
        target=get_target("trn1"),
        dialect=Dialect.LEGACY,
        profile=profile_of(*point(text)),
    )


def job(text: str = TEXT) -> Job:
    return Job(Path("kernel.py"), text, "kernel", ARGUMENTS, "trn1")


def quick(**changes: object) -> SearchSettings:
    """Settings of a small search."""
    return evolve(SearchSettings(beam=3, top_k=8, iterations=4, fix_rounds=0, seed=3), **changes)


async def search(
    settings: SearchSettings,
    profiler: FakeProfiler | None = None,
    walker: Walker | None = None,
    *,
    store: RunStore | None = None,
    run: str = "",
    lessons: Lessons | None = None,
    listener: Listener | None = None,
    screen: Screen | None = None,
) -> SearchResult:
    """Search from (1, 1)."""
    task = problem()
    evaluator = Evaluator(
        profiler or FakeProfiler(),
        job(),
        store=store,
        run=run,
        concurrency=settings.concurrency,
        most=settings.max_evaluations,
    )
    gates = Gates(TEXT, "kernel", ARGUMENTS, task.target, task.profile)
    beam = BeamSearch(roles(walker), evaluator, gates, settings, lessons, listener, screen)
    return await beam.run(task)


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Run a script in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
