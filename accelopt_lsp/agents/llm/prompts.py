"""Prompts: templates of our own, filled with what is known about the kernel at hand.

A template is a file with two parts, the system message and the user message, separated by a
line of three dashes. A recorded reply answers one exact prompt, so whoever changes a template
changes :data:`VERSION`, which a run's exchanges name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from string import Template

from accelopt_lsp.agents.llm import sections
from accelopt_lsp.agents.llm.facts import call_facts, dialect_rules, hardware_facts
from accelopt_lsp.agents.llm.ledger import estimate
from accelopt_lsp.agents.llm.sections import DETAILS, Detail, fenced, limited
from accelopt_lsp.agents.normalise import function_text
from accelopt_lsp.agents.roles import Attempt, Candidate, Experience, Pair, Plan, Problem
from accelopt_lsp.rewrites import Site

VERSION = 2
"""Of the templates."""
TEMPLATES = ("planner", "executor", "fixer", "summarizer")
MAX_ERROR_CHARS = 4_000

Messages = tuple[dict[str, str], ...]
Render = Callable[[Detail], Messages]


def template_text(name: str) -> str:
    """A template as its file has it."""
    return files("accelopt_lsp.agents.llm").joinpath(f"prompts/{name}.md").read_text("utf-8")


@cache
def _template(name: str) -> tuple[Template, Template]:
    system, _, user = template_text(name).partition("\n---\n")
    return Template(system), Template(user)


def _messages(name: str, **values: object) -> Messages:
    system, user = _template(name)
    return (
        {"role": "system", "content": system.substitute(values)},
        {"role": "user", "content": user.substitute(values).strip() + "\n"},
    )


def tokens_of(messages: Messages) -> int:
    """About how many tokens a prompt has."""
    return estimate(sum(len(m["content"]) for m in messages))


def fitting(render: Render, most_tokens: int | None, least: int = 0) -> int:
    """The first level of detail, from ``least`` on, whose prompt fits; else the last one."""
    if most_tokens is None:
        return least
    levels = range(least, len(DETAILS) - 1)
    fits = (n for n in levels if tokens_of(render(DETAILS[n])) <= most_tokens)
    return next(fits, len(DETAILS) - 1)


def _common(problem: Problem, source: str, detail: Detail) -> dict[str, object]:
    """What all prompts about code share."""
    calls = call_facts(source, problem.dialect, problem.target, detail, problem.function)
    return {
        "target_name": problem.target.name,
        "dialect": problem.dialect.value,
        "function": problem.function,
        "rules": dialect_rules(problem.dialect),
        "arguments": sections.arguments(problem),
        "code": sections.kernel_code(source, problem.function, detail),
        "beside": sections.beside_kernel(source, problem.function, detail),
        "reference": sections.reference_code(problem, detail),
        "calls": calls or "(none)",
        "hardware": hardware_facts(problem.target),
    }


def planner_messages(
    problem: Problem,
    candidate: Candidate,
    experiences: Sequence[Experience],
    sites: Sequence[Site],
    tried: Sequence[Plan],
    count: int,
    detail: Detail = DETAILS[0],
) -> Messages:
    """What a planner is asked; labels S1... and E1... stand for sites and experiences."""
    source = candidate.source
    common = _common(problem, source, detail)
    common["code"] = sections.numbered_code(source, problem.function, detail)
    return _messages(
        "planner",
        **common,
        count=count,
        provenance=candidate.profile.provenance.value,
        profile=sections.profile_text(candidate.profile, source, detail, problem.floor_ms),
        sites=sections.sites(sites, detail),
        experiences=sections.experiences(experiences, detail),
        tried=sections.tried(tried, detail),
        scope=_scope(problem),
    )


def _scope(problem: Problem) -> str:
    """Which lines a step may change."""
    if problem.focus is None:
        return "The whole kernel may change."
    first, last = problem.focus
    return (
        f"Only steps about lines {first} to {last} of the file are wanted. Outside these lines a "
        "step may add statements, but neither change nor remove any."
    )


def executor_messages(
    problem: Problem, candidate: Candidate, plan: Plan, variant: int, detail: Detail = DETAILS[0]
) -> Messages:
    """What an executor is asked; later variants ask for another way to the same step."""
    again = ""
    if variant:
        again = (
            f"\nThis is attempt {variant + 1} at the step: where there is a choice (sizes, order "
            "of loops, where a tile lives), take another one than the most obvious.\n"
        )
    return _messages(
        "executor",
        **_common(problem, candidate.source, detail),
        title=plan.title,
        rationale=plan.rationale,
        place=_place(plan, candidate.source),
        variant=again,
    )


def _place(plan: Plan, source: str) -> str:
    """The line that a plan is about, by its text: the code is shown without numbers."""
    lines = source.splitlines()
    if plan.line is None or not 0 < plan.line <= len(lines) or not lines[plan.line - 1].strip():
        return ""
    return f"\nIt is about this line: `{lines[plan.line - 1].strip()[:200]}`\n"


def fixer_messages(
    problem: Problem, attempt: Attempt, reply: str | None, detail: Detail = DETAILS[0]
) -> Messages:
    """What a fixer is asked: the exact error, and the code or the reply that caused it."""
    if attempt.source is not None:
        shown = sections.kernel_code(attempt.source, problem.function, detail)
    elif reply:
        shown = "The reply could not be read as code:\n\n" + fenced(
            limited(reply, detail.code // 2), ""
        )
    else:
        shown = "(there is none)"
    return _messages(
        "fixer",
        **_common(problem, attempt.parent.source, detail),
        title=attempt.plan.title,
        rationale=attempt.plan.rationale,
        attempt=shown,
        error=limited(_error(attempt), MAX_ERROR_CHARS),
    )


def summarizer_messages(problem: Problem, pair: Pair, detail: Detail = DETAILS[0]) -> Messages:
    """What a summarizer is asked."""
    (slow, slow_profile), (fast, fast_profile) = pair.slow, pair.fast
    most = detail.code // 2
    return _messages(
        "summarizer",
        target_name=problem.target.name,
        title=pair.attempt.plan.title,
        ratio=f"{pair.ratio:.2f}",
        direction="faster" if pair.helpful else "slower",
        slow=fenced(limited(function_text(slow, problem.function), most)),
        fast=fenced(limited(function_text(fast, problem.function), most)),
        slow_profile=sections.profile_text(slow_profile, slow, detail),
        fast_profile=sections.profile_text(fast_profile, fast, detail),
    )


def _error(attempt: Attempt) -> str:
    failure = attempt.failure
    if failure is None or failure.line is None or attempt.source is None:
        return attempt.error or "the outputs are wrong"
    lines = attempt.source.splitlines()
    shown = lines[failure.line - 1].strip() if 0 < failure.line <= len(lines) else ""
    return f"{attempt.error}\n\nThe line: {shown}" if shown else str(attempt.error)
