"""A search that keeps to some lines of its kernel, such as one loop.

A step belongs to these lines if its site stands in them: such a step may add things around them,
a load that it moves out of the loop for example. Code that no rewrite of the catalogue wrote is
held to more: outside these lines it may add, but neither change nor remove. The lines are those of
the baseline; in a candidate they are what has become of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from difflib import SequenceMatcher

from attrs import evolve

from accelopt_lsp.agents.off_loop import off_loop
from accelopt_lsp.agents.offline import OfflineAgent
from accelopt_lsp.agents.roles import (
    Attempt,
    Candidate,
    Draft,
    Executor,
    Experience,
    Fixer,
    Plan,
    Planner,
    Problem,
    Roles,
    Usage,
)
from accelopt_lsp.nki.lines import split_lines

OFFLINE = OfflineAgent.name
Lines = tuple[int, int]
"""First and last line, from 1."""
_KEPT = 64


class Focus:
    """Lines of a text, and where they are in later versions of it.

    Args:
        text: the baseline.
        lines: the lines in it.
    """

    def __init__(self, text: str, lines: Lines) -> None:
        self._text = split_lines(text)
        self.lines = lines
        self._known: OrderedDict[str, Lines] = OrderedDict()

    def within(self, source: str) -> Lines:
        """What became of the lines in a version of the text."""
        found = self._known.get(source)
        if found is None:
            found = self._known[source] = _carried(self._text, split_lines(source), self.lines)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return found

    def objection(self, source: str, draft: str) -> str | None:
        """Why a draft of some ``source`` goes beyond the lines; None if it does not."""
        first, last = self.within(source)
        before = split_lines(source)
        rest = iter(split_lines(draft))
        for number, line in enumerate(before, 1):
            if first <= number <= last or not line.strip():
                continue
            if not any(line == other for other in rest):
                return f"line {number} was changed or removed; only lines {first} to {last} may be"
        return None


def _carried(before: Sequence[str], after: Sequence[str], lines: Lines) -> Lines:
    start, end = lines[0] - 1, lines[1] - 1
    first, last = start, end
    for kind, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if i <= start < j:
            first = k + (start - i if kind == "equal" else 0)
        if i <= end < j:
            last = k + (end - i) if kind == "equal" else m - 1
    return first + 1, max(first, last) + 1


class FocusedPlanner:
    """Lets pass what another planner plans for the lines."""

    def __init__(self, planner: Planner, focus: Focus) -> None:
        self._planner = planner
        self._focus = focus
        self.name = planner.name

    @property
    def usage(self) -> Usage:
        return self._planner.usage

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
        first, last = await off_loop(lambda: self._focus.within(candidate.source))
        found = await self._planner.plan(
            evolve(problem, focus=(first, last)),
            candidate,
            experiences,
            count,
            seed=seed,
            tried=tried,
            fruitless=fruitless,
        )
        # A plan without a line is a model's; what it writes is held to the lines later.
        return [plan for plan in found if plan.line is None or first <= plan.line <= last]


class FocusedExecutor:
    """An executor whose own code keeps to the lines."""

    def __init__(self, executor: Executor, focus: Focus) -> None:
        self._executor = executor
        self._focus = focus
        self.name = executor.name

    @property
    def usage(self) -> Usage:
        return self._executor.usage

    async def execute(
        self, problem: Problem, candidate: Candidate, plan: Plan, *, variant: int, seed: int
    ) -> Draft:
        draft = await self._executor.execute(problem, candidate, plan, variant=variant, seed=seed)
        by_catalogue = plan.rewrite is not None
        return draft if by_catalogue else await _checked(self._focus, candidate.source, draft)


class FocusedFixer:
    """A fixer whose own code keeps to the lines."""

    def __init__(self, fixer: Fixer, focus: Focus) -> None:
        self._fixer = fixer
        self._focus = focus
        self.name = fixer.name

    @property
    def usage(self) -> Usage:
        return self._fixer.usage

    async def fix(self, problem: Problem, attempt: Attempt, *, seed: int) -> Draft | None:
        draft = await self._fixer.fix(problem, attempt, seed=seed)
        by_catalogue = attempt.plan.rewrite is not None and self.name == OFFLINE
        if draft is None or by_catalogue:
            return draft
        return await _checked(self._focus, attempt.parent.source, draft)


async def _checked(focus: Focus, source: str, draft: Draft) -> Draft:
    written = draft.source
    if written is None:
        return draft
    why = await off_loop(lambda: focus.objection(source, written))
    return draft if why is None else evolve(draft, source=None, error=why)


def focused(roles: Roles, text: str, lines: Lines | None) -> Roles:
    """The roles, kept to some lines of the baseline's text; as they are without lines."""
    if lines is None:
        return roles
    focus = Focus(text, lines)
    return evolve(
        roles,
        planner=FocusedPlanner(roles.planner, focus),
        executor=FocusedExecutor(roles.executor, focus),
        fixer=FocusedFixer(roles.fixer, focus),
    )
