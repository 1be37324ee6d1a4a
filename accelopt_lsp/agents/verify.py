"""From a draft to a verdict: screen, trace, compare outputs, pass the gates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from attrs import evolve

from accelopt_lsp.agents.evaluate import Evaluator, OutOfEvaluations
from accelopt_lsp.agents.gates import Finding, Gates
from accelopt_lsp.agents.roles import Attempt, Verdict
from accelopt_lsp.agents.settings import SearchSettings
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, Outcome

Screen = Callable[[str], Awaitable[Failure | None]]
"""Looks at a source before it is run: what cannot compile costs no evaluation."""


class Verifier:
    """Gives attempts their verdicts.

    Args:
        evaluator: runs sources.
        gates: what a kernel must pass besides being fast.
        settings: seeds and concurrency.
        screen: static check before anything is run.
        other_seeds: of inputs of other scales.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        gates: Gates,
        settings: SearchSettings,
        screen: Screen | None = None,
        other_seeds: tuple[int, ...] = (),
    ) -> None:
        self._evaluator = evaluator
        self._gates = gates
        self._settings = settings
        self._screen = screen
        self._first = (*settings.verify_seeds, *other_seeds[:1])
        self._all = (*settings.final_seeds, *other_seeds)

    async def trace(self, attempt: Attempt) -> Attempt:
        """Instruction stream and timeline only: traced, refused by a gate, or failed."""
        source = _source(attempt)
        dishonest = self._gates.source(source)
        if dishonest:
            return _judged(attempt, None, Verdict.REFUSED, dishonest)
        rejected = await self._screen(source) if self._screen is not None else None
        if rejected is not None:
            return _failed(attempt, rejected)
        try:
            outcome = await self._evaluator.evaluate(source)
        except OutOfEvaluations:
            return evolve(attempt, verdict=Verdict.NOT_WRITTEN, source=None, error="not evaluated")
        if isinstance(outcome, Failure):
            return _failed(attempt, outcome)
        findings = self._gates.findings(source, outcome)
        if findings:
            return _judged(attempt, outcome, Verdict.REFUSED, findings)
        return _judged(attempt, outcome, Verdict.TRACED)

    async def check(self, attempt: Attempt) -> Attempt:
        """Compare outputs on the seeds for candidates."""
        return await self._compare(attempt, (self._first,))

    async def final(self, attempt: Attempt) -> Attempt:
        """Compare outputs on the final seeds; those of an earlier check are not run again.

        The seeds are shared out over as many runs as may go on at once.
        """
        done = self._first if attempt.verdict is Verdict.VERIFIED else ()
        left = [seed for seed in self._all if seed not in done]
        shares = [left[i :: self._settings.concurrency] for i in range(self._settings.concurrency)]
        chunks = tuple(tuple(share) for share in shares if share)
        return await self._compare(attempt, (*((done,) if done else ()), *chunks))

    async def _compare(self, attempt: Attempt, chunks: Sequence[tuple[int, ...]]) -> Attempt:
        source = _source(attempt)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._evaluator.evaluate(source, chunk, unlimited=True))
                for chunk in chunks
            ]
        outcome = merged([task.result() for task in tasks])
        if isinstance(outcome, Failure):
            return _failed(attempt, outcome)
        findings = (
            *self._gates.verified(outcome),
            *self._gates.observed(attempt.profile, outcome),
            *self._gates.findings(source, outcome),
        )
        if findings:
            return _judged(attempt, outcome, Verdict.INCORRECT, findings)
        return _judged(attempt, outcome, Verdict.VERIFIED)


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """One outcome of runs of the same source on different seeds: the worst of them."""
    profiles: list[Profile] = []
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            return outcome
        profiles.append(outcome)
    slowest = max(profiles, key=lambda p: p.latency_ms or 0.0)
    verdicts = [p.correct for p in profiles]
    correct = False if False in verdicts else None if None in verdicts else True
    errors = [p.max_relative_error for p in profiles if p.max_relative_error is not None]
    notes = dict.fromkeys(note for p in profiles for note in p.notes)
    return evolve(
        slowest,
        correct=correct,
        max_relative_error=max(errors, default=None),
        notes=tuple(notes),
    )


def sentence(failure: Failure) -> str:
    """A failure in one line, place first."""
    place = f"line {failure.line}: " if failure.line is not None else ""
    code = f" [{failure.code}]" if failure.code else ""
    return f"{place}{failure.message}{code}"


def _source(attempt: Attempt) -> str:
    if attempt.source is None:
        raise ValueError(f"{attempt.id} has no source to run")
    return attempt.source


def _failed(attempt: Attempt, failure: Failure) -> Attempt:
    return evolve(attempt, verdict=Verdict.FAILED, failure=failure, error=sentence(failure))


def _judged(
    attempt: Attempt, profile: Profile | None, verdict: Verdict, findings: Sequence[Finding] = ()
) -> Attempt:
    error = "; ".join(f.message for f in findings) or None
    return evolve(attempt, verdict=verdict, profile=profile, error=error)
