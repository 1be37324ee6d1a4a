"""The four roles of the agent loop, and what they hand to each other.

Roles are protocols with two implementations each (offline: the rewrite catalogue; LLM: any
OpenAI-compatible endpoint). They are asynchronous, cancellable at any await, and account for
what they spend in :class:`Usage`. The search owns everything else: evaluation, selection,
verification, the store and the memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from attrs import field, frozen

from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.base import Failure


@frozen(slots=True)
class Problem:
    """The kernel that is to become faster.

    Attributes:
        path: file it belongs to (need not exist on disk in this form).
        text: full text of that file.
        function: qualified name of the kernel in it.
        arguments: what it is called with.
        target: hardware generation.
        dialect: how it is written.
        profile: profile of ``text``.
        reference: file whose ``forward`` gives the expected outputs, if there is one.
        focus: first and last line of the candidate that a step must be about; None is all of it.
        floor_ms: latency below which there is nothing left to gain; None if unknown.
    """

    path: Path
    text: str
    function: str
    arguments: KernelArguments
    target: Target
    dialect: Dialect
    profile: Profile
    reference: Path | None = None
    focus: tuple[int, int] | None = None
    floor_ms: float | None = None


@frozen(slots=True)
class Plan:
    """One step: a single change that should make a candidate faster.

    Attributes:
        title: what to do, as a headline.
        rationale: why it should help here, with the figures.
        rewrite: name of the catalogue's rewrite that carries it out, if one fits.
        parameters: parameters of the rewrite's site.
        line: source line the step is about, if one is known.
        experiences: ids of the experiences that it draws on.
        site: the catalogue's own description of the place, opaque to the search.
    """

    title: str
    rationale: str
    rewrite: str | None = None
    parameters: Mapping[str, Any] = field(factory=dict)
    line: int | None = None
    experiences: tuple[str, ...] = ()
    site: Any = field(default=None, eq=False, repr=False)


@frozen(slots=True)
class Candidate:
    """A verified kernel in the beam.

    Attributes:
        order: (iteration, beam place, plan, attempt, fix round); the baseline is ``()``.
            Candidates of equal latency are ordered by it, so selection does not depend on
            which evaluation finished first.
        source: full file text.
        profile: its profile; ``latency_ms`` is a number.
        fingerprint: hash of its normalised tokens.
        parent: id of the candidate it was made from; None for the baseline.
        plan: the step that led to it; None for the baseline.
        steps: titles of all steps from the baseline to it.
    """

    order: tuple[int, ...]
    source: str
    profile: Profile
    fingerprint: str
    parent: str | None = None
    plan: Plan | None = None
    steps: tuple[Plan, ...] = ()

    @property
    def id(self) -> str:
        """Readable form of ``order``."""
        return candidate_id(self.order)

    @property
    def latency_ms(self) -> float:
        latency = self.profile.latency_ms
        if latency is None:
            raise ValueError("a candidate without a latency cannot be ranked")
        return latency


def candidate_id(order: tuple[int, ...]) -> str:
    """``baseline`` or, for example, ``i2.c0.p3.a1.f0``."""
    if not order:
        return "baseline"
    return ".".join(f"{letter}{n}" for letter, n in zip("icpaf", order, strict=False))


@frozen(slots=True)
class Draft:
    """What an executor or fixer writes.

    Attributes:
        source: full file text; None if it could not write any.
        error: why not.
        plan: the plan as carried out, where its parameters had to change.
    """

    source: str | None
    error: str | None = None
    plan: Plan | None = None


class Verdict(StrEnum):
    """What became of an attempt."""

    DRAFTED = "drafted"
    TRACED = "traced"
    VERIFIED = "verified"
    INCORRECT = "incorrect"
    FAILED = "failed"
    NOT_WRITTEN = "not-written"
    DUPLICATE = "duplicate"
    REFUSED = "refused"


@frozen(slots=True)
class Attempt:
    """One try at a plan.

    Attributes:
        order: see :attr:`Candidate.order`.
        parent: the candidate it changes.
        plan: the step it carries out.
        source: full file text; None if nothing was written.
        fingerprint: hash of its normalised tokens.
        verdict: what became of it.
        profile: its profile, if it could be traced.
        failure: why there is none, if it was run.
        error: message for the fixer and for people: the failure's, or why outputs are wrong.
    """

    order: tuple[int, ...]
    parent: Candidate
    plan: Plan
    source: str | None
    fingerprint: str = ""
    verdict: Verdict = Verdict.DRAFTED
    profile: Profile | None = None
    failure: Failure | None = None
    error: str | None = None

    @property
    def id(self) -> str:
        return candidate_id(self.order)

    @property
    def latency_ms(self) -> float | None:
        """Latency in milliseconds, unless it failed or turned out wrong."""
        if self.profile is None or self.verdict not in (Verdict.TRACED, Verdict.VERIFIED):
            return None
        return self.profile.latency_ms

    @property
    def speedup(self) -> float | None:
        """Over its parent; None if unknown."""
        latency = self.latency_ms
        return None if latency is None else self.parent.latency_ms / latency


@frozen(slots=True)
class Tags:
    """Where a strategy was seen to work (or not): the structure that retrieval compares.

    Attributes:
        instructions: instruction ids that the kernel issues.
        bottleneck: what bounded it (``dma``, ``tensor``, ...), if known.
        loop_pattern: deepest loop nest, for example ``nest3``.
        dtype: widest data type of its tensor arguments.
        dialect, target: as named elsewhere.
        engines: engines, ``dma`` included, that were busy for a notable share of the time.
        shape_class: kind of its tensor arguments, for example ``2d-streams-tall``.
    """

    instructions: tuple[str, ...] = ()
    bottleneck: str | None = None
    loop_pattern: str | None = None
    dtype: str | None = None
    dialect: str | None = None
    target: str | None = None
    engines: tuple[str, ...] = ()
    shape_class: str | None = None


@frozen(slots=True)
class Origin:
    """Where an experience comes from.

    Attributes:
        figures: ``estimated``, ``simulated`` or ``measured``.
        author: ``offline`` or a model's name.
        version: version of this package.
        run: id of the run.
        kernel: the kernel's qualified name.
        created: seconds since the epoch.
    """

    figures: str = "simulated"
    author: str = "offline"
    version: str = ""
    run: str = ""
    kernel: str = ""
    created: float = 0.0


@frozen(slots=True)
class Experience:
    """A slow/fast pair and the general strategy drawn from it.

    Attributes:
        id: hash of its content.
        title: the strategy as a headline.
        text: the strategy in words, general enough for other kernels.
        before, after: pseudocode.
        ratio: latency of the slow kernel over that of the fast one, above 1.
        helpful: True if the step led from slow to fast; False if it led from fast to slow,
            which is to be avoided in such a situation.
        tags: situation of the kernel the step was applied to.
        origin: provenance.
        rewrite: the catalogue's rewrite behind it, if one was.
        slow, fast: the two kernels' text.
        wins, losses: runs in which a plan that drew on it came true, or none did: made a kernel
            notably faster, or, for what is to be avoided, did not. Counted in this memory.
        pinned: never pruned.
        trusted: False for imports until they win once here.
        reported_wins, reported_losses: counts of whoever exported it: shown, never ranked by.
    """

    id: str
    title: str
    text: str
    before: str = ""
    after: str = ""
    ratio: float = 1.0
    helpful: bool = True
    tags: Tags = Tags()
    origin: Origin = Origin()
    rewrite: str | None = None
    slow: str | None = None
    fast: str | None = None
    wins: int = 0
    losses: int = 0
    pinned: bool = False
    trusted: bool = True
    reported_wins: int = 0
    reported_losses: int = 0

    @property
    def win_rate(self) -> float:
        """Share of wins, with one win and one loss assumed beforehand."""
        return (self.wins + 1) / (self.wins + self.losses + 2)


@frozen(slots=True)
class Pair:
    """An attempt that made a notable difference, for the summarizer.

    Attributes:
        attempt: the attempt.
        slow, fast: (source, profile) of the two kernels.
        helpful: the attempt is the fast one.
    """

    attempt: Attempt
    slow: tuple[str, Profile]
    fast: tuple[str, Profile]
    helpful: bool

    @property
    def ratio(self) -> float:
        slow, fast = self.slow[1].latency_ms, self.fast[1].latency_ms
        if slow is None or fast is None:
            raise ValueError("both kernels of a pair have a latency")
        return slow / fast


@frozen(slots=True)
class Usage:
    """What a role has spent.

    Attributes:
        calls: requests to a model that were answered.
        tokens: prompt and completion tokens; None if some answers came without a count.
        cost_usd: by the configured prices; None if a price or a count is unknown.
        prompt_tokens, completion_tokens: what was counted of either.
        cached_tokens: those of the prompts that an endpoint had in its cache.
        uncounted: answers that came without a count.
    """

    calls: int = 0
    tokens: int | None = 0
    cost_usd: float | None = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    uncounted: int = 0

    def __add__(self, other: Usage) -> Usage:
        cost: float | None = None
        if self.cost_usd is not None and other.cost_usd is not None:
            cost = self.cost_usd + other.cost_usd
        tokens: int | None = None
        if self.tokens is not None and other.tokens is not None:
            tokens = self.tokens + other.tokens
        return Usage(
            self.calls + other.calls,
            tokens,
            cost,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.uncounted + other.uncounted,
        )

    def words(self) -> str:
        """For people: ``12 requests, 34,567 tokens (8,000 cached), $0.0123``."""
        text = f"{self.calls} request{'s' * (self.calls != 1)}"
        if self.tokens is not None:
            text += f", {self.tokens:,} tokens"
        else:
            counted = self.prompt_tokens + self.completion_tokens
            text += f", {counted:,} tokens and {self.uncounted} uncounted"
        if self.cached_tokens:
            text += f" ({self.cached_tokens:,} cached)"
        return text + (", cost unknown" if self.cost_usd is None else f", ${self.cost_usd:.4f}")


class RoleFailure(Exception):  # noqa: N818 - the run ends, nothing broke here
    """A role cannot go on in this run: no endpoint, a wrong key, no recorded reply.

    The search ends with what it has; the message says what to do.
    """


class OutOfBudget(RoleFailure):
    """A limit on tokens or dollars is reached."""


class Role(Protocol):
    """What every role has."""

    @property
    def name(self) -> str: ...

    @property
    def usage(self) -> Usage: ...


class Planner(Role, Protocol):
    """Reads the candidate's profile and the experiences, proposes steps."""

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
        """At most ``count`` plans for ``candidate``, best first.

        Args:
            seed: makes choices repeatable.
            tried: plans that were already carried out on this candidate.
            fruitless: plans that did not make one of its ancestors faster.
        """
        ...


class Executor(Role, Protocol):
    """Turns a plan into code."""

    async def execute(
        self, problem: Problem, candidate: Candidate, plan: Plan, *, variant: int, seed: int
    ) -> Draft:
        """Carry out ``plan``; ``variant`` counts the attempts at the same plan from 0."""
        ...


class Fixer(Role, Protocol):
    """Repairs an attempt, given the exact error."""

    async def fix(self, problem: Problem, attempt: Attempt, *, seed: int) -> Draft | None:
        """A repaired draft, or None if it has no idea how."""
        ...


class Summarizer(Role, Protocol):
    """Turns a slow/fast pair into a general strategy."""

    async def summarize(self, problem: Problem, pair: Pair, *, run: str) -> Experience: ...


@frozen(slots=True)
class Roles:
    """The four roles of one run; implementations mix freely."""

    planner: Planner
    executor: Executor
    fixer: Fixer
    summarizer: Summarizer

    @property
    def usage(self) -> Usage:
        """Sum over distinct roles (one object may play several)."""
        distinct = {id(r): r for r in (self.planner, self.executor, self.fixer, self.summarizer)}
        total = Usage()
        for role in distinct.values():
            total = total + role.usage
        return total

    @property
    def names(self) -> dict[str, str]:
        return {
            "planner": self.planner.name,
            "executor": self.executor.name,
            "fixer": self.fixer.name,
            "summarizer": self.summarizer.name,
        }
