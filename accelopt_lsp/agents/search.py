"""Beam search over kernels, as in AccelOpt, with every choice a parameter.

Per iteration, for each candidate of the beam, the planner writes plans, the executor carries
each out several times, the fixer may repair what failed. Attempts are traced first; only those
that would enter the beam or the memory are verified. The result depends on the roles, the
profiler, the settings and the seed, never on which evaluation finishes first: every phase
waits for all of its evaluations, and ties are broken by a candidate's place in the search.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import evolve, field, frozen

from accelopt_lsp.agents.evaluate import Evaluator
from accelopt_lsp.agents.gates import Gates
from accelopt_lsp.agents.learning import Lessons
from accelopt_lsp.agents.normalise import fingerprint
from accelopt_lsp.agents.roles import (
    Attempt,
    Candidate,
    Draft,
    Experience,
    Pair,
    Plan,
    Problem,
    RoleFailure,
    Roles,
    Usage,
    Verdict,
)
from accelopt_lsp.agents.selection import (
    as_candidate,
    as_pair,
    best_of_plans,
    by_latency,
    distinct,
    fruitless,
    notable,
    shown,
    simplest_first,
)
from accelopt_lsp.agents.settings import SearchSettings
from accelopt_lsp.agents.verify import Screen, Verifier


@frozen(slots=True)
class SearchEvent:
    """Progress for people and for editors.

    Attributes:
        iteration: from 1; 0 before the first.
        iterations: how many there may be.
        evaluations: finished evaluations, verifications included.
        candidates: attempts that the profiler is done with.
        baseline_ms, best_ms: latencies so far.
        message: what is being tried.
        fraction: share of the search that is done, as far as one can tell.
        usage: what the roles have spent.
        run: id in the run store, where there is one.
        verified: fastest kernel so far whose outputs were compared, on the seeds for candidates;
            None if none is faster than the baseline.
    """

    iteration: int
    iterations: int
    evaluations: int
    candidates: int
    baseline_ms: float
    best_ms: float
    message: str
    fraction: float
    usage: Usage = Usage()
    verified: Candidate | None = field(default=None, repr=False)
    run: str | None = None

    @property
    def speedup(self) -> float:
        return self.baseline_ms / self.best_ms


@frozen(slots=True)
class SearchResult:
    """What a search found.

    Attributes:
        best: fastest candidate that passed the final verification; the baseline if none did.
        verified: ``best`` is not the baseline and passed on all final seeds.
        beam: final beam.
        iterations: iterations carried out.
        evaluations, reused: evaluations in all, and those a resumed run found in the store.
        stopped: why the search ended.
        attempts: every attempt with what became of it.
        notes: remarks for people.
        role_failure: a role could not go on, which ended the search.
    """

    best: Candidate
    verified: bool
    beam: tuple[Candidate, ...]
    iterations: int
    evaluations: int
    reused: int
    stopped: str
    attempts: tuple[Attempt, ...] = field(repr=False, default=())
    notes: tuple[str, ...] = ()
    role_failure: RoleFailure | None = None


__all__ = ["BeamSearch", "Screen", "SearchEvent", "SearchResult", "SearchSettings"]

Listener = Callable[[SearchEvent], None]


class BeamSearch:
    """One search.

    Args:
        roles: planner, executor, fixer, summarizer.
        evaluator: runs attempts and stores what comes of them.
        gates: what an attempt must pass besides being fast.
        settings: every choice.
        lessons: where pairs become experiences.
        listener: told about progress.
        screen: static check of every new attempt.
        other_seeds: inputs of other scales, see :mod:`accelopt_lsp.agents.scales`.
    """

    def __init__(
        self,
        roles: Roles,
        evaluator: Evaluator,
        gates: Gates,
        settings: SearchSettings,
        lessons: Lessons | None = None,
        listener: Listener | None = None,
        screen: Screen | None = None,
        other_seeds: tuple[int, ...] = (),
    ) -> None:
        self._roles = roles
        self._evaluator = evaluator
        self._gates = gates
        self._settings = settings
        self._lessons = lessons or Lessons()
        self._listener = listener
        self._verifier = Verifier(evaluator, gates, settings, screen, other_seeds)
        self._seen: dict[str, str] = {}
        self._tried: dict[str, list[Plan]] = {}
        self._attempts: dict[tuple[int, ...], Attempt] = {}
        self._verified: dict[tuple[int, ...], Candidate] = {}
        self._experiences: tuple[Experience, ...] = ()
        self._iteration = 0
        self._learned = 0
        self._message = ""
        self._out_of_plans = False
        self._role_failure: RoleFailure | None = None
        self._notes: list[str] = []

    async def run(self, problem: Problem) -> SearchResult:
        """Search until the floor, the patience or the budget is reached, then verify.

        Cancelling the task stops at once; everything evaluated is in the store.
        """
        settings = self._settings
        baseline = Candidate((), problem.text, problem.profile, fingerprint(problem.text))
        self._seen[baseline.fingerprint] = baseline.id
        self._verified[()] = baseline
        self._baseline = baseline
        self._evaluator.on_finished = self.tell
        if settings.memory_policy != "none":
            initial = self._lessons.initial
            self._experiences = shown((), initial, settings.exp_n, settings.memory_policy)
        beam = [baseline]
        stopped = "all iterations done"
        idle = 0
        deadline = None
        if settings.budget_seconds is not None:
            deadline = asyncio.get_running_loop().time() + settings.budget_seconds
        try:
            async with asyncio.timeout_at(deadline):
                if self._at_floor(baseline):
                    return self._result(baseline, beam, "the baseline is at the static floor")
                for iteration in range(1, settings.iterations + 1):
                    self._iteration = iteration
                    before = beam[0].latency_ms
                    beam = await self._iterate(problem, beam)
                    gained = beam[0].latency_ms < before * (1 - settings.min_improvement)
                    idle = 0 if gained else idle + 1
                    if self._at_floor(beam[0]):
                        stopped = "the static floor is reached"
                        break
                    if self._role_failure is not None:
                        stopped = str(self._role_failure)
                        break
                    if self._out_of_plans:
                        stopped = "the planner has nothing left to try"
                        break
                    if idle >= settings.patience:
                        stopped = f"nothing improved for {idle} iteration(s)"
                        break
                    if self._evaluator.exhausted:
                        stopped = "the limit on evaluations is reached"
                        break
        except TimeoutError:
            stopped = f"the budget of {settings.budget_seconds:g} s is used up"
            self._lessons.iteration(self._iteration, self._current(), beam, settings.fast_threshold)
        best = await self._final(problem)
        await self._learn_from(problem, best)
        self._lessons.finish()
        return self._result(best, beam, stopped)

    def _result(self, best: Candidate, beam: Sequence[Candidate], stopped: str) -> SearchResult:
        return SearchResult(
            best=best,
            verified=best is not self._baseline,
            beam=tuple(beam),
            iterations=self._iteration,
            evaluations=self._evaluator.finished,
            reused=self._evaluator.reused,
            stopped=stopped,
            attempts=tuple(a for _, a in sorted(self._attempts.items())),
            notes=(*dict.fromkeys(self._notes), *self._lessons.notes),
            role_failure=self._role_failure,
        )

    # -- one iteration ----------------------------------------------------------------

    async def _iterate(self, problem: Problem, beam: list[Candidate]) -> list[Candidate]:
        iteration = self._iteration
        planned = await _gather(self._plan(problem, candidate) for candidate in beam)
        orders: list[tuple[tuple[int, ...], Candidate, Plan]] = []
        self._out_of_plans = not any(planned)
        for place, (candidate, plans) in enumerate(zip(beam, planned, strict=True)):
            self._tried.setdefault(candidate.fingerprint, []).extend(plans)
            self._lessons.plans(iteration, candidate, plans)
            for position, plan in enumerate(plans):
                for attempt in range(self._settings.attempts):
                    orders.append(((iteration, place, position, attempt, 0), candidate, plan))
        drafts = await _gather(
            self._execute(problem, candidate, plan, order) for order, candidate, plan in orders
        )
        for (order, candidate, plan), draft in zip(orders, drafts, strict=True):
            self._record(_drafted(order, candidate, plan, draft))
        await self._settle(problem, [order for order, _, _ in orders])
        chosen = await self._select(problem, beam)
        if self._settings.memory_policy != "none":
            pairs = await self._pairs(problem)
            learned = await self._lessons.learn(problem, self._roles.summarizer, pairs)
            settings = self._settings
            self._experiences = shown(
                self._experiences, learned, settings.exp_n, settings.memory_policy
            )
        self._learned = iteration
        self._lessons.iteration(iteration, self._current(), chosen, self._settings.fast_threshold)
        self.tell(f"iteration {iteration}: best {chosen[0].latency_ms:.4g} ms")
        return chosen

    async def _plan(self, problem: Problem, candidate: Candidate) -> Sequence[Plan]:
        tried = tuple(self._tried.get(candidate.fingerprint, ()))
        try:
            plans = await self._roles.planner.plan(
                problem,
                candidate,
                self._experiences,
                self._settings.plans,
                seed=self._settings.seed,
                tried=tried,
                fruitless=self._fruitless(candidate),
            )
        except Exception as error:
            self._note_failure("planner", error)
            return ()
        return tuple(plans)[: self._settings.plans]

    def _fruitless(self, candidate: Candidate) -> Sequence[Plan]:
        ancestors = set()
        while candidate.order:
            candidate = self._attempts[candidate.order].parent
            ancestors.add(candidate.id)
        made = [attempt for _, attempt in sorted(self._attempts.items())]
        return fruitless(made, ancestors, self._settings.min_improvement)

    async def _execute(
        self, problem: Problem, candidate: Candidate, plan: Plan, order: tuple[int, ...]
    ) -> Draft:
        try:
            return await self._roles.executor.execute(
                problem, candidate, plan, variant=order[3], seed=self._settings.seed
            )
        except Exception as error:
            self._note_failure("executor", error)
            return Draft(None, f"executor: {type(error).__name__}: {error}")

    def _note_failure(self, role: str, error: Exception) -> None:
        """A role's failure costs its own result only; one for good ends the search.

        What the others are at goes on to the end of the iteration, since it is paid for.
        """
        if isinstance(error, RoleFailure):
            self._role_failure = self._role_failure or error
        else:
            self._notes.append(f"{role}: {type(error).__name__}: {error}")

    async def _settle(self, problem: Problem, orders: Sequence[tuple[int, ...]]) -> None:
        """Trace drafts, and repair what fails, until nothing is left to do."""
        while orders:
            fresh = [self._attempts[order] for order in orders]
            unique = [a for a in fresh if a.source is not None and self._is_new(a)]
            await _gather(self._trace(attempt) for attempt in unique)
            failed = [
                a
                for a in (self._attempts[order] for order in orders)
                if a.verdict in (Verdict.FAILED, Verdict.REFUSED, Verdict.NOT_WRITTEN)
            ]
            orders = await self._repair(problem, failed)

    def _is_new(self, attempt: Attempt) -> bool:
        twin = self._seen.setdefault(attempt.fingerprint, attempt.id)
        if twin == attempt.id:
            return True
        self._record(evolve(attempt, verdict=Verdict.DUPLICATE, error=f"the same as {twin}"))
        return False

    async def _trace(self, attempt: Attempt) -> None:
        self.tell(attempt.plan.title)
        traced = await self._verifier.trace(attempt)
        # At once, so that progress knows it; what follows waits for all of them.
        self._record(traced)
        self.tell()

    async def _repair(self, problem: Problem, failed: Sequence[Attempt]) -> list[tuple[int, ...]]:
        """Drafts of the fixer for attempts that have rounds left; gives their orders."""
        open_ = [
            a
            for a in failed
            if a.order[4] < self._settings.fix_rounds
            and not self._evaluator.exhausted
            and self._role_failure is None
        ]
        drafts = await _gather(self._fix(problem, attempt) for attempt in open_)
        orders = []
        for attempt, draft in zip(open_, drafts, strict=True):
            if draft is None:
                continue
            order = (*attempt.order[:4], attempt.order[4] + 1)
            self._record(_drafted(order, attempt.parent, attempt.plan, draft))
            orders.append(order)
        return orders

    async def _fix(self, problem: Problem, attempt: Attempt) -> Draft | None:
        try:
            return await self._roles.fixer.fix(problem, attempt, seed=self._settings.seed)
        except Exception as error:
            self._note_failure("fixer", error)
            return None

    # -- selection --------------------------------------------------------------------

    async def _select(self, problem: Problem, beam: Sequence[Candidate]) -> list[Candidate]:
        """The best B of the beam and of each plan's best attempt, all of them verified."""
        while True:
            ranked = by_latency([*beam, *best_of_plans(self._current())])
            top = distinct(ranked, self._settings.beam)
            unverified = [a for a in top if isinstance(a, Attempt) and a.verdict is Verdict.TRACED]
            if not unverified:
                return [c if isinstance(c, Candidate) else self._verified[c.order] for c in top]
            await self._verify(problem, unverified)

    async def _verify(self, problem: Problem, attempts: Sequence[Attempt]) -> None:
        """Compare outputs; what is wrong goes to the fixer if it has rounds left."""
        for attempt in attempts:
            self.tell(f"verifying: {attempt.plan.title}")
        checked = await _gather(self._verifier.check(attempt) for attempt in attempts)
        for attempt in checked:
            self._record(attempt)
        wrong = [a for a in checked if a.verdict is not Verdict.VERIFIED]
        await self._settle(problem, await self._repair(problem, wrong))

    async def _pairs(self, problem: Problem) -> list[Pair]:
        """Notable speed-ups and slow-downs of this iteration, verified."""
        settings = self._settings
        fast = await self._notable(
            problem, settings.top_k // 2, lambda s: s > settings.fast_threshold, slowest=False
        )
        slow = await self._notable(
            problem,
            settings.top_k - len(fast),
            lambda s: s < settings.slow_threshold,
            slowest=True,
        )
        return [as_pair(a, helpful=True) for a in fast] + [as_pair(a, helpful=False) for a in slow]

    async def _notable(
        self, problem: Problem, most: int, wanted: Callable[[float], bool], *, slowest: bool
    ) -> list[Attempt]:
        while True:
            top = notable(self._current(), wanted, most, slowest=slowest)
            unverified = [a for a in top if a.verdict is Verdict.TRACED]
            if not unverified:
                return top
            await self._verify(problem, unverified)

    # -- the end ----------------------------------------------------------------------

    async def _final(self, problem: Problem) -> Candidate:
        """The fastest kernel that passes on all final seeds; the baseline if none does."""
        enough = self._baseline.latency_ms * (1 - self._settings.min_improvement)
        hopeful = [
            a for a in self._attempts.values() if a.latency_ms is not None and a.latency_ms < enough
        ]
        for attempt in simplest_first(hopeful, self._settings.min_improvement):
            self.tell(f"final verification of {attempt.id}")
            judged = await self._verifier.final(attempt)
            if judged.verdict is not Verdict.VERIFIED:
                self._notes.append(f"{attempt.id} was dropped: {judged.error}")
                self._record(judged)
                continue
            candidate = as_candidate(judged)
            if candidate.latency_ms < enough:
                return candidate
        return self._baseline

    # -- bookkeeping ------------------------------------------------------------------

    def _record(self, attempt: Attempt) -> None:
        self._attempts[attempt.order] = attempt
        if attempt.verdict is Verdict.VERIFIED:
            self._verified[attempt.order] = as_candidate(attempt)

    def _current(self) -> list[Attempt]:
        """This iteration's attempts, in order."""
        return [a for order, a in sorted(self._attempts.items()) if order[0] == self._iteration]

    async def _learn_from(self, problem: Problem, best: Candidate) -> None:
        """The lesson of the result itself, where the budget ended its iteration early."""
        attempt = self._attempts.get(best.order)
        if attempt is None or best.order[0] <= self._learned:
            return
        speedup = attempt.speedup or 0.0
        if speedup > self._settings.fast_threshold and self._settings.memory_policy != "none":
            pairs = [as_pair(attempt, helpful=True)]
            await self._lessons.learn(problem, self._roles.summarizer, pairs)

    def _at_floor(self, candidate: Candidate) -> bool:
        floor = self._gates.floor(candidate.profile).attainable_ms
        return candidate.latency_ms <= floor * (1 + self._settings.floor_margin)

    def tell(self, message: str = "") -> None:
        """Have the listener know how far the search is, and what it is at."""
        if self._listener is None:
            return
        baseline = self._baseline.latency_ms
        known = [a.latency_ms for a in self._attempts.values() if a.latency_ms is not None]
        self._message = message or self._message
        settings = self._settings
        current = self._current()
        done = sum(a.verdict is not Verdict.DRAFTED for a in current)
        share = done / len(current) if current else 0.0
        fraction = (max(0, self._iteration - 1) + share) / max(1, settings.iterations)
        self._listener(
            SearchEvent(
                iteration=self._iteration,
                iterations=settings.iterations,
                evaluations=self._evaluator.finished,
                candidates=self._evaluator.candidates,
                baseline_ms=baseline,
                best_ms=min([baseline, *known]),
                message=self._message,
                fraction=min(1.0, fraction),
                usage=self._roles.usage,
                verified=self._fastest_verified(),
            )
        )

    def _fastest_verified(self) -> Candidate | None:
        enough = self._baseline.latency_ms * (1 - self._settings.min_improvement)
        best = min(self._verified.values(), key=lambda c: c.latency_ms)
        return best if best.latency_ms < enough else None


async def _gather(tasks: Iterable[Any]) -> list[Any]:
    """Results in the order of the tasks; the first error cancels the others."""
    async with asyncio.TaskGroup() as group:
        started = [group.create_task(task) for task in tasks]
    return [task.result() for task in started]


def _drafted(order: tuple[int, ...], parent: Candidate, plan: Plan, draft: Draft) -> Attempt:
    carried_out = draft.plan or plan
    if draft.source is None:
        return Attempt(
            order, parent, carried_out, None, verdict=Verdict.NOT_WRITTEN, error=draft.error
        )
    return Attempt(order, parent, carried_out, draft.source, fingerprint(draft.source))
