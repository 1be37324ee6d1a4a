"""Planner, executor, fixer and summarizer on language models, mixed with the catalogue.

A plan may name one of the catalogue's sites; such a plan is carried out by the catalogue, since
a rewrite that keeps outputs beats a model that retypes the kernel.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeVar

from attrs import evolve

from accelopt_lsp import __version__
from accelopt_lsp.agents.llm.client import ChatModels, Reply
from accelopt_lsp.agents.llm.faults import LlmError, TooLong
from accelopt_lsp.agents.llm.prompts import (
    Messages,
    Render,
    executor_messages,
    fitting,
    fixer_messages,
    planner_messages,
    summarizer_messages,
    tokens_of,
)
from accelopt_lsp.agents.llm.replies import (
    PlanText,
    Unreadable,
    read_code,
    read_plans,
    read_strategy,
)
from accelopt_lsp.agents.llm.sections import DETAILS, Detail
from accelopt_lsp.agents.normalise import function_text
from accelopt_lsp.agents.offline import OfflineAgent
from accelopt_lsp.agents.retrieval import experience_id
from accelopt_lsp.agents.roles import (
    Attempt,
    Candidate,
    Draft,
    Executor,
    Experience,
    Fixer,
    Origin,
    Pair,
    Plan,
    Planner,
    Problem,
    RoleFailure,
    Roles,
    Summarizer,
    Usage,
)
from accelopt_lsp.agents.situations import tags_of
from accelopt_lsp.rewrites import Site

T = TypeVar("T")
_KEPT_REPLIES = 256


class _LlmRole:
    """What the roles share: a model, a name, and what it has spent."""

    role = ""

    def __init__(self, models: ChatModels, catalogue: OfflineAgent) -> None:
        self._models = models
        self._catalogue = catalogue

    @property
    def name(self) -> str:
        return self._models.settings.of(self.role).model

    @property
    def usage(self) -> Usage:
        return self._models.ledger.of(self.role)

    async def _ask(self, render: Render, seed: int = 0) -> tuple[Messages, Reply]:
        """Ask with the fullest prompt that fits the model, and give back what was asked.

        A prompt that the endpoint finds too long is written anew with less in it.
        """
        model = self._models.settings.of(self.role)
        level = fitting(render, model.prompt_tokens(model.context_tokens))
        while True:
            messages = render(DETAILS[level])
            try:
                return messages, await self._models.ask(self.role, messages, seed=seed)
            except TooLong as error:
                if level + 1 >= len(DETAILS):
                    raise LlmError(
                        f"the {self.role}'s shortest prompt, about {tokens_of(messages):,} tokens, "
                        f"does not fit the context of {model.model}: {error}"
                    ) from error
                room = model.prompt_tokens(error.limit)
                # Without a limit to go by, a prompt of half the size is worth a try.
                level = fitting(render, room or tokens_of(messages) // 2, level + 1)
                self._models.note(
                    f"prompts of the {self.role} were shortened from about "
                    f"{tokens_of(messages):,} to {tokens_of(render(DETAILS[level])):,} tokens to "
                    f"fit the context of {model.model}; context-tokens does so beforehand"
                )


class LlmPlanner(_LlmRole):
    """Asks for all plans of a candidate in one request."""

    role = "planner"

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
        """At most ``count`` plans; an unreadable reply is asked for once more.

        Raises:
            LlmError: no usable reply.
            Unreadable: two replies without plans.
        """
        done = (*tried, *(plan for plan in fruitless if plan not in tried))
        sites = await self._catalogue.sites(problem, candidate, experiences, seed=seed, tried=tried)

        def render(detail: Detail) -> Messages:
            return planner_messages(problem, candidate, experiences, sites, done, count, detail)

        messages, reply = await self._ask(render, seed)
        try:
            found = read_plans(reply.text)
        except Unreadable as reason:
            reply = await self._models.ask(
                self.role, (*messages, *_objection(reply.text, reason)), seed=seed
            )
            found = read_plans(reply.text)
        again = {plan.title.casefold() for plan in done}
        fresh = [text for text in found if text.title.casefold() not in again]
        return [_plan(text, sites, experiences) for text in fresh[:count]]


def _objection(reply: str, reason: Unreadable) -> tuple[dict[str, str], ...]:
    return (
        {"role": "assistant", "content": reply[:20_000]},
        {"role": "user", "content": f"That cannot be used: {reason}. Reply with the JSON only."},
    )


def _plan(text: PlanText, sites: Sequence[Site], experiences: Sequence[Experience]) -> Plan:
    site = _labelled(text.site, "S", sites)
    drawn = [_labelled(label, "E", experiences) for label in text.experiences]
    return Plan(
        title=text.title,
        rationale=text.rationale,
        rewrite=site.rewrite if site is not None else None,
        parameters=dict(site.parameters) if site is not None else {},
        line=site.line if site is not None else text.line,
        experiences=tuple(dict.fromkeys(e.id for e in drawn if e is not None)),
        site=site,
    )


def _labelled(label: str | None, letter: str, items: Sequence[T]) -> T | None:
    """What a label such as ``S2``, or its number alone, stands for."""
    number = (label or "").removeprefix(letter)
    if not number.isdecimal():
        return None
    index = int(number) - 1
    return items[index] if 0 <= index < len(items) else None


class LlmExecutor(_LlmRole):
    """Has the catalogue carry out what it can, and a model the rest.

    Replies that hold no usable code are remembered for the fixer.
    """

    role = "executor"

    def __init__(self, models: ChatModels, catalogue: OfflineAgent) -> None:
        super().__init__(models, catalogue)
        self._unread: OrderedDict[tuple[str, str], str] = OrderedDict()

    async def execute(
        self, problem: Problem, candidate: Candidate, plan: Plan, *, variant: int, seed: int
    ) -> Draft:
        """The candidate with one plan carried out."""
        if plan.rewrite is not None:
            draft = await self._catalogue.execute(
                problem, candidate, plan, variant=variant, seed=seed
            )
            if draft.source is not None:
                return draft
        _, reply = await self._ask(
            lambda detail: executor_messages(problem, candidate, plan, variant, detail),
            seed + variant,
        )
        try:
            return Draft(read_code(reply.text, candidate.source, problem.function, cut=reply.cut))
        except Unreadable as reason:
            self._keep(candidate, plan, reply.text)
            return Draft(None, str(reason))

    def _keep(self, candidate: Candidate, plan: Plan, reply: str) -> None:
        self._unread[candidate.id, plan.title] = reply
        if len(self._unread) > _KEPT_REPLIES:
            self._unread.popitem(last=False)

    def unread(self, candidate: Candidate, plan: Plan) -> str | None:
        """The last reply to this plan that held no usable code."""
        return self._unread.get((candidate.id, plan.title))


class LlmFixer(_LlmRole):
    """Shows a model the exact error; size problems of catalogue steps go to the catalogue."""

    role = "fixer"

    def __init__(
        self, models: ChatModels, catalogue: OfflineAgent, executor: LlmExecutor | None
    ) -> None:
        super().__init__(models, catalogue)
        self._executor = executor

    async def fix(self, problem: Problem, attempt: Attempt, *, seed: int) -> Draft | None:
        """The attempt repaired."""
        draft = await self._catalogue.fix(problem, attempt, seed=seed)
        if draft is not None and draft.source is not None:
            return draft
        unread = None
        if attempt.source is None and self._executor is not None:
            unread = self._executor.unread(attempt.parent, attempt.plan)
        _, reply = await self._ask(
            lambda detail: fixer_messages(problem, attempt, unread, detail),
            seed + attempt.order[4],
        )
        base = attempt.source if attempt.source is not None else attempt.parent.source
        try:
            source = read_code(reply.text, base, problem.function, cut=reply.cut)
            return Draft(source, plan=attempt.plan)
        except Unreadable as reason:
            return Draft(None, str(reason), plan=attempt.plan)


class LlmSummarizer(_LlmRole):
    """Words a strategy; where the reply is unusable, the catalogue's own words stand in."""

    role = "summarizer"

    async def summarize(self, problem: Problem, pair: Pair, *, run: str) -> Experience:
        """The strategy behind a pair."""
        known = await self._catalogue.summarize(problem, pair, run=run)
        try:
            _, reply = await self._ask(lambda detail: summarizer_messages(problem, pair, detail))
            worded = read_strategy(reply.text)
        except (LlmError, RoleFailure, Unreadable):
            return known
        first = pair.attempt.parent
        tags = tags_of(problem, first.source, first.profile)
        return evolve(
            known,
            id=experience_id(
                worded.title, str(pair.helpful), tags.bottleneck or "", tags.dialect or "", run
            ),
            title=worded.title if pair.helpful else f"Avoid here: {worded.title}",
            text=worded.text,
            before=worded.before,
            after=worded.after,
            origin=Origin(
                figures=first.profile.provenance.value,
                author=self.name,
                version=__version__,
                run=run,
                kernel=problem.function,
                created=time.time(),
            ),
            slow=function_text(pair.slow[0], problem.function),
            fast=function_text(pair.fast[0], problem.function),
        )


def llm_roles(models: ChatModels, catalogue: OfflineAgent | None = None) -> Roles:
    """The four roles as the settings say, each on its model or on the catalogue."""
    offline = catalogue or OfflineAgent()
    settings = models.settings
    planner: Planner = offline if settings.planner.is_offline else LlmPlanner(models, offline)
    llm_executor = None if settings.executor.is_offline else LlmExecutor(models, offline)
    executor: Executor = llm_executor or offline
    fixer: Fixer = offline if settings.fixer.is_offline else LlmFixer(models, offline, llm_executor)
    summarizer: Summarizer = (
        offline if settings.summarizer.is_offline else LlmSummarizer(models, offline)
    )
    return Roles(planner, executor, fixer, summarizer)
