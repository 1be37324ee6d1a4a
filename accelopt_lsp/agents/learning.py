"""From pairs to experiences: what a run gives to the memory and to its own record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import evolve

from accelopt_lsp.agents.database import DatabaseProblem
from accelopt_lsp.agents.memory import OptimizationMemory
from accelopt_lsp.agents.roles import (
    Attempt,
    Candidate,
    Experience,
    Pair,
    Plan,
    Problem,
    Summarizer,
)
from accelopt_lsp.agents.store import RunStore


class Lessons:
    """Where a search leaves plans, beams and experiences.

    What cannot be given to the memory (locked by another process, say) stays in the run store
    and is given to it by a later run, so nothing is lost silently.

    Args:
        memory: optimization memory; None learns for this run only.
        store: run store; None keeps no record.
        run: id of the run.
        initial: experiences given to the planner at the start.
        remember: what is learned is meant for the memory, now or, where it cannot be used,
            later.
    """

    def __init__(
        self,
        memory: OptimizationMemory | None = None,
        store: RunStore | None = None,
        run: str = "",
        initial: Sequence[Experience] = (),
        *,
        remember: bool = True,
    ) -> None:
        self.initial = tuple(initial)
        self.notes: list[str] = []
        self._memory = memory
        self._store = store
        self._run = run
        self._meant = remember
        self._known = {e.id: e for e in initial}
        self._improved: dict[str, bool] = {}

    def plans(self, iteration: int, candidate: Candidate, plans: Sequence[Plan]) -> None:
        """Keep the plans for one candidate."""
        if self._store is not None:
            self._store.record_plans(self._run, iteration, candidate.id, plans)

    async def learn(
        self, problem: Problem, summarizer: Summarizer, pairs: Iterable[Pair]
    ) -> list[Experience]:
        """Experiences of an iteration, stored and remembered."""
        learned: list[Experience] = []
        for pair in pairs:
            experience = await self._lesson(problem, summarizer, pair)
            if experience is None:
                continue
            kept = self._remember(experience, f"{self._run}/{pair.attempt.id}")
            if kept is not None:
                experience = evolve(experience, id=kept)
                if self._store is not None:
                    self._store.mark_remembered(self._run, pair.attempt.id)
            learned.append(experience)
        return learned

    async def _lesson(
        self, problem: Problem, summarizer: Summarizer, pair: Pair
    ) -> Experience | None:
        """What a pair teaches; a resumed run takes what it had learned from it before."""
        key = pair.attempt.id
        known = self._store.experience(self._run, key) if self._store is not None else None
        try:
            # Asked all the same: a recorded reply counts towards what the run has spent.
            experience = await summarizer.summarize(problem, pair, run=self._run)
        except Exception as error:
            self.notes.append(f"summarizer: {type(error).__name__}: {error}")
            return known
        if known is None and self._store is not None:
            self._store.record_experience(self._run, key, experience, remember=self._meant)
        return known or experience

    def _remember(self, experience: Experience, key: str) -> str | None:
        if self._memory is None:
            return None
        try:
            return self._memory.add(experience, key)
        except DatabaseProblem as problem:
            self._note(f"{problem}; what was learned is kept with run {self._run}")
            return None

    def iteration(
        self,
        iteration: int,
        attempts: Sequence[Attempt],
        beam: Sequence[Candidate],
        threshold: float,
    ) -> None:
        """Keep an iteration's outcome, and count what its plans drew on and came true."""
        if self._store is not None:
            self._store.record_iteration(
                self._run, iteration, attempts, [(c.id, c.latency_ms) for c in beam]
            )
        self._count(attempts, threshold)

    def _count(self, attempts: Sequence[Attempt], threshold: float) -> None:
        """Note which known experiences were drawn on, and count what has come true."""
        for attempt in attempts:
            improved = (attempt.speedup or 0.0) > threshold
            for name in attempt.plan.experiences:
                if name in self._known:
                    self._improved[name] = self._improved.get(name, False) or improved
        for name, improved in sorted(self._improved.items()):
            if improved:
                self._use(name, won=self._known[name].helpful)

    def finish(self) -> None:
        """Count, at the end of a run, what was drawn on and improved nothing.

        Each experience counts once a run: after its best place, a strategy's other places in
        the same kernel say little about it.
        """
        for name, improved in sorted(self._improved.items()):
            if not improved:
                self._use(name, won=not self._known[name].helpful)

    def _use(self, name: str, *, won: bool) -> None:
        if self._memory is None:
            return
        try:
            # It may come from a team's layer, or have been forgotten meanwhile.
            kept = self._memory.adopt(self._known[name])
            self._memory.record_use([kept], won=won, key=f"{self._run}/use/{name}")
        except DatabaseProblem as problem:
            self._note(str(problem))

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def flush_pending(memory: OptimizationMemory, store: RunStore, note: Callable[[str], None]) -> int:
    """Give the memory what earlier runs could not; gives how many experiences that were."""
    count = 0
    for run, key, experience in store.pending_experiences():
        try:
            memory.add(experience, f"{run}/{key}")
        except DatabaseProblem as problem:
            note(str(problem))
            break
        store.mark_remembered(run, key)
        count += 1
    return count
