"""Prompts: templates of our own, filled with what is known about the kernel at hand.

A template is a file with two parts, the system message and the user message, separated by a
line of three dashes. Their version is part of every exchange's key, since a recorded reply
answers one exact prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from string import Template

from accelopt_lsp.agents.llm.facts import call_facts, dialect_rules, hardware_facts
from accelopt_lsp.agents.normalise import function_text
from accelopt_lsp.agents.roles import Attempt, Candidate, Experience, Pair, Plan, Problem
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.rewrites import Site

MOST_LINES = 12
MAX_CODE_CHARS = 60_000
MAX_EXPERIENCE_CHARS = 1_200
MAX_ERROR_CHARS = 4_000
Messages = tuple[dict[str, str], ...]


@cache
def _template(name: str) -> tuple[Template, Template]:
    text = files("accelopt_lsp.agents.llm").joinpath(f"prompts/{name}.md").read_text("utf-8")
    system, _, user = text.partition("\n---\n")
    return Template(system), Template(user)


def _messages(name: str, **values: object) -> Messages:
    system, user = _template(name)
    return (
        {"role": "system", "content": system.substitute(values)},
        {"role": "user", "content": user.substitute(values).strip() + "\n"},
    )


def _common(problem: Problem, source: str) -> dict[str, object]:
    """What all prompts about code share."""
    code = function_text(source, problem.function)
    return {
        "target_name": problem.target.name,
        "dialect": problem.dialect.value,
        "function": problem.function,
        "rules": dialect_rules(problem.dialect),
        "arguments": _arguments(problem),
        "code": _limited(code, MAX_CODE_CHARS),
        "calls": call_facts(source, problem.dialect, problem.target) or "(none)",
        "hardware": hardware_facts(problem.target),
    }


def _arguments(problem: Problem) -> str:
    given = ", ".join(f"{name}={spec}" for name, spec in problem.arguments.values.items())
    grid = problem.arguments.grid
    return (given or "(none)") + (f", launched on a grid of {grid}" if grid else "")


def planner_messages(
    problem: Problem,
    candidate: Candidate,
    experiences: Sequence[Experience],
    sites: Sequence[Site],
    tried: Sequence[Plan],
    count: int,
) -> Messages:
    """What a planner is asked; labels S1... and E1... stand for sites and experiences."""
    return _messages(
        "planner",
        **_common(problem, candidate.source),
        count=count,
        provenance=candidate.profile.provenance.value,
        profile=profile_text(candidate.profile, candidate.source),
        sites=_sites(sites),
        experiences=_experiences(experiences),
        tried="\n".join(f"- {plan.title}" for plan in tried) or "(nothing)",
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


def executor_messages(problem: Problem, candidate: Candidate, plan: Plan, variant: int) -> Messages:
    """What an executor is asked; later variants ask for another way to the same step."""
    again = ""
    if variant:
        again = (
            f"\nThis is attempt {variant + 1} at the step: where there is a choice (sizes, order "
            "of loops, where a tile lives), take another one than the most obvious.\n"
        )
    return _messages(
        "executor",
        **_common(problem, candidate.source),
        title=plan.title,
        rationale=plan.rationale,
        variant=again,
    )


def fixer_messages(problem: Problem, attempt: Attempt, reply: str | None) -> Messages:
    """What a fixer is asked: the exact error, and the code or the reply that caused it."""
    if attempt.source is not None:
        shown = f"```python\n{function_text(attempt.source, problem.function)}\n```"
    elif reply:
        shown = "The reply could not be read as code:\n\n" + _limited(reply, MAX_CODE_CHARS)
    else:
        shown = "(there is none)"
    return _messages(
        "fixer",
        **_common(problem, attempt.parent.source),
        title=attempt.plan.title,
        rationale=attempt.plan.rationale,
        attempt=shown,
        error=_limited(_error(attempt), MAX_ERROR_CHARS),
    )


def summarizer_messages(problem: Problem, pair: Pair) -> Messages:
    """What a summarizer is asked."""
    (slow, slow_profile), (fast, fast_profile) = pair.slow, pair.fast
    return _messages(
        "summarizer",
        target_name=problem.target.name,
        title=pair.attempt.plan.title,
        ratio=f"{pair.ratio:.2f}",
        direction="faster" if pair.helpful else "slower",
        slow=_limited(function_text(slow, problem.function), MAX_CODE_CHARS // 2),
        fast=_limited(function_text(fast, problem.function), MAX_CODE_CHARS // 2),
        slow_profile=profile_text(slow_profile, slow),
        fast_profile=profile_text(fast_profile, fast),
    )


def _error(attempt: Attempt) -> str:
    failure = attempt.failure
    if failure is None or failure.line is None or attempt.source is None:
        return attempt.error or "the outputs are wrong"
    lines = attempt.source.splitlines()
    shown = lines[failure.line - 1].strip() if 0 < failure.line <= len(lines) else ""
    return f"{attempt.error}\n\nThe line: {shown}" if shown else str(attempt.error)


def _sites(sites: Sequence[Site]) -> str:
    rows = []
    for n, site in enumerate(sites, 1):
        benefit = f"; {site.benefit}" if site.benefit else ""
        rows.append(f"- S{n}: {site.description} (line {site.line}{benefit})")
    return "\n".join(rows) or "(none)"


def _experiences(experiences: Sequence[Experience]) -> str:
    rows = []
    for n, e in enumerate(experiences, 1):
        word = "helped" if e.helpful else "made it slower, avoid it"
        record = f"{e.wins} wins, {e.losses} losses since"
        rows.append(f"## E{n}: {e.title}\n{word}: {e.ratio:.2f} times; {record}\n\n")
        rows.append(_limited(e.text, MAX_EXPERIENCE_CHARS) + "\n")
        for title, code in (("Before", e.before), ("After", e.after)):
            if code:
                rows.append(f"\n{title}:\n```\n{_limited(code, MAX_EXPERIENCE_CHARS)}\n```\n")
    return "".join(rows) or "(none yet)"


def profile_text(profile: Profile, source: str) -> str:
    """A profile as a model reads it: what bounds the time, and the dearest lines."""
    rows = [f"- latency {_number(profile.latency_ms)} ms"]
    if profile.percent_of_peak is not None:
        rows[0] += f", {profile.percent_of_peak:.1f} % of the hardware's peak"
    shares = sorted((profile.bounded_shares or {}).items(), key=lambda item: (-item[1], item[0]))
    bounding = [f"{name} {share:.0%}" for name, share in shares if share >= 0.02]
    if bounding:
        rows.append(f"- bounded by {', '.join(bounding)} of the time")
    elif profile.bound is not None:
        rows.append(f"- bound by {profile.bound.value}")
    busy = ", ".join(
        f"{name} {_number(ms)} ms" for name, ms in sorted(profile.engine_busy_ms.items())
    )
    rows.append(f"- busy: {busy}")
    rows += _traffic(profile)
    for what_if in sorted(profile.what_ifs or (), key=lambda w: -w.speedup)[:6]:
        if what_if.speedup > 1.01:
            rows.append(f"- what if {what_if.condition()}: {what_if.speedup:.2f} times as fast")
    for gap in (profile.idle or ())[:4]:
        where = f" of line {gap.line}" if gap.line is not None else ""
        rows.append(
            f"- {gap.engine} stands still for {_number(gap.total_ms)} ms: {gap.wait.value}"
            f"{f' on {gap.on}' if gap.on else ''}{where}"
        )
    rows.append("- dearest lines:")
    rows += _lines(profile, source)
    return "\n".join(rows)


def _traffic(profile: Profile) -> list[str]:
    counters = profile.counters
    parts = []
    for name, words in (
        ("hbm_read_bytes", "HBM reads"),
        ("hbm_write_bytes", "HBM writes"),
        ("spill_save_bytes", "spilled"),
        ("spill_reload_bytes", "re-loaded after spills"),
    ):
        value = counters.get(name)
        if value:
            parts.append(f"{words} {value / 1e6:.4g} MB")
    parts.append(f"{profile.issued.total_instructions} instructions")
    return [f"- {', '.join(parts)}"]


def _lines(profile: Profile, source: str) -> list[str]:
    text = source.splitlines()
    rows = []
    for line in profile.lines[:MOST_LINES]:
        code = text[line.line - 1].strip() if 0 < line.line <= len(text) else ""
        critical = f", {_number(line.critical_ms)} ms critical" if line.critical_ms else ""
        rows.append(
            f"  - {code[:100]!r} ({line.engine}): {line.instructions} instructions, "
            f"{_number(line.busy_ms)} ms busy{critical}"
        )
    return rows


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def _limited(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n... ({len(text) - most} more characters)"
