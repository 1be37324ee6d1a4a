"""The offline roles: the catalogue of rewrites, guided by the profile and the memory.

No model and no network. The planner ranks the catalogue's sites, the executor applies one,
the fixer turns to a smaller choice of parameters, the summarizer words what happened.
"""

from __future__ import annotations

import random
import re
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TypeVar

from attrs import evolve

from accelopt_lsp import __version__
from accelopt_lsp.agents.evidence import Evidence, kind_of
from accelopt_lsp.agents.gates import widest_float
from accelopt_lsp.agents.normalise import function_text
from accelopt_lsp.agents.off_loop import off_loop
from accelopt_lsp.agents.relief import LineShares, limits, score_of
from accelopt_lsp.agents.retrieval import experience_id
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
    Usage,
)
from accelopt_lsp.agents.situations import tags_of
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import FailureKind
from accelopt_lsp.rewrites import catalogue
from accelopt_lsp.rewrites.base import NotApplicable, Rewrite, RewriteContext, Site

T = TypeVar("T")
LIKELY = 0.9
"""A planner with proven steps plans no more of them than make one success this likely."""
_KEPT_CONTEXTS = 16
MOST_SITES = 20
"""Sites that are shown to another planner."""
_TOO_MUCH = ("sbuf", "psum", "exceed", "does not fit", "too large", "overflow", "out of memory")
_UNEVEN = ("divi", "multiple", "out of bound", "out-of-bound", "shape", "remainder")
_COUNTERS = (
    ("hbm_read_bytes", "HBM reads"),
    ("hbm_write_bytes", "HBM writes"),
    ("spill_save_bytes", "spilled"),
    ("spill_reload_bytes", "spill re-loads"),
)


class OfflineAgent:
    """Planner, executor, fixer and summarizer in one.

    Args:
        rewrites: the catalogue to choose from; None takes all of it.
    """

    name = "offline"

    def __init__(self, rewrites: Sequence[Rewrite] | None = None) -> None:
        chosen = catalogue() if rewrites is None else rewrites
        self._rewrites = {rewrite.name: rewrite for rewrite in chosen}
        self._contexts: OrderedDict[str, RewriteContext] = OrderedDict()

    @property
    def usage(self) -> Usage:
        """Nothing: no model is called."""
        return Usage()

    def _context(self, problem: Problem, source: str) -> RewriteContext:
        found = self._contexts.get(source)
        if found is None:
            found = RewriteContext.from_text(
                source, problem.function, problem.arguments, problem.target
            )
            self._contexts[source] = found
            if len(self._contexts) > _KEPT_CONTEXTS:
                self._contexts.popitem(last=False)
        else:
            self._contexts.move_to_end(source)
        return found

    def _sites(self, problem: Problem, source: str) -> list[tuple[Rewrite, Site]]:
        try:
            context = self._context(problem, source)
        except NotApplicable:
            return []
        sites = []
        for rewrite in self._rewrites.values():
            try:
                sites += [(rewrite, site) for site in rewrite.find(context)]
            except NotApplicable:
                continue
        return sites

    def _alternatives(self, problem: Problem, source: str, plan: Plan) -> list[Site]:
        """Other choices of parameters for the same rewrite at the same place."""
        return [
            site
            for rewrite, site in self._sites(problem, source)
            if rewrite.name == plan.rewrite
            and (plan.line is None or site.line == plan.line)
            and dict(site.parameters) != dict(plan.parameters)
        ]

    # -- planner ----------------------------------------------------------------------

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
        """The catalogue's best sites by profile and experience, mixed over rewrites.

        What did not help an ancestor comes back only when there is nothing else.
        """
        return await off_loop(
            lambda: self._plan(problem, candidate, experiences, count, seed, tried, fruitless)
        )

    def _plan(
        self,
        problem: Problem,
        candidate: Candidate,
        experiences: Sequence[Experience],
        count: int,
        seed: int,
        tried: Sequence[Plan],
        fruitless: Sequence[Plan],
    ) -> list[Plan]:
        shares = LineShares(candidate.source, candidate.profile)
        want = tags_of(problem, candidate.source, candidate.profile)
        evidence = Evidence.of(experiences, want, candidate.steps)
        ranked = self._ranked(problem, candidate, evidence, seed, tried, fruitless, shares)
        proven, rest = _parted(ranked, evidence)
        # What is proven comes first and alone: so the search goes deeper for the same effort.
        chosen = _enough(proven, count, evidence) or _mixed(rest, count)
        return [
            _as_plan(rewrite, site, candidate.profile, shares, evidence) for rewrite, site in chosen
        ]

    async def sites(
        self,
        problem: Problem,
        candidate: Candidate,
        experiences: Sequence[Experience],
        *,
        seed: int,
        tried: Sequence[Plan] = (),
    ) -> list[Site]:
        """Where the catalogue applies, best first, a few of each rewrite: for other planners."""
        shares = LineShares(candidate.source, candidate.profile)
        want = tags_of(problem, candidate.source, candidate.profile)
        evidence = Evidence.of(experiences, want, candidate.steps)
        ranked = await off_loop(
            lambda: self._ranked(problem, candidate, evidence, seed, tried, (), shares)
        )
        return [site for _, site in _mixed(ranked, MOST_SITES)]

    def _ranked(
        self,
        problem: Problem,
        candidate: Candidate,
        evidence: Evidence,
        seed: int,
        tried: Sequence[Plan],
        fruitless: Sequence[Plan],
        shares: LineShares,
    ) -> list[tuple[Rewrite, Site]]:
        """Sites that were not tried yet: those that memory speaks for, by the profile, the others.

        What memory speaks for comes by the share of the time that it may save, everything else by
        the share that it is about; last comes what memory speaks against.
        """
        done = {(plan.rewrite, plan.line, repr(sorted(plan.parameters.items()))) for plan in tried}
        choose = random.Random(f"{seed}/{candidate.fingerprint}")
        scored: list[tuple[float, float, int, Rewrite, Site]] = []
        first, last = problem.focus or (1, len(candidate.source))
        for position, (rewrite, site) in enumerate(self._sites(problem, candidate.source)):
            if not first <= site.line <= last:
                continue
            if (rewrite.name, site.line, repr(sorted(site.parameters.items()))) in done:
                continue
            score = score_of(rewrite, site, candidate.profile, shares) + 0.01 * choose.random()
            scored.append((evidence.expected(site), score, position, rewrite, site))
        hopeless = {_gist(plan.rewrite, plan.title) for plan in fruitless}
        fresh = [e for e in scored if _gist(e[3].name, e[4].description) not in hopeless]
        scored = fresh or scored
        scored.sort(key=lambda entry: (-entry[0], -entry[1], entry[2]))
        return [(rewrite, site) for _, _, _, rewrite, site in scored]

    # -- executor ---------------------------------------------------------------------

    async def execute(
        self, problem: Problem, candidate: Candidate, plan: Plan, *, variant: int, seed: int
    ) -> Draft:
        """Apply the plan's rewrite; later variants take other parameters at the same place."""
        return await off_loop(lambda: self._execute(problem, candidate, plan, variant))

    def _execute(self, problem: Problem, candidate: Candidate, plan: Plan, variant: int) -> Draft:
        if variant == 0:
            return self._apply(problem, candidate.source, plan)
        others = self._alternatives(problem, candidate.source, plan)
        if variant > len(others):
            return Draft(None, "there is no further choice of parameters at this place")
        return self._apply(problem, candidate.source, _with_site(plan, others[variant - 1]))

    def _apply(self, problem: Problem, source: str, plan: Plan) -> Draft:
        rewrite = self._rewrites.get(plan.rewrite or "")
        if rewrite is None:
            return Draft(None, f"no rewrite of the catalogue carries out {plan.title!r}")
        try:
            context = self._context(problem, source)
            site = plan.site if isinstance(plan.site, Site) else None
            if site is None:
                site = next(
                    (
                        s
                        for s in rewrite.find(context)
                        if dict(s.parameters) == dict(plan.parameters)
                        and (plan.line is None or s.line == plan.line)
                    ),
                    None,
                )
            if site is None:
                return Draft(None, f"{rewrite.title} does not apply here")
            return Draft(rewrite.apply(context, site), plan=plan)
        except NotApplicable as reason:
            return Draft(None, f"{rewrite.title} does not apply: {reason}")

    # -- fixer ------------------------------------------------------------------------

    async def fix(self, problem: Problem, attempt: Attempt, *, seed: int) -> Draft | None:
        """Smaller blocks where memory overflowed or a size did not divide; else no idea."""
        if attempt.plan.rewrite is None or not _is_size_problem(attempt):
            return None
        return await off_loop(lambda: self._shrink(problem, attempt))

    def _shrink(self, problem: Problem, attempt: Attempt) -> Draft | None:
        plan, source = attempt.plan, attempt.parent.source
        size = _size(plan)
        smaller = [
            site
            for site in self._alternatives(problem, source, plan)
            if _size_of(site.parameters) < size
        ]
        smaller.sort(key=lambda site: (-_size_of(site.parameters), site.rank))
        for site in smaller:
            draft = self._apply(problem, source, _with_site(plan, site))
            if draft.source is not None:
                return draft
        return None

    # -- summarizer -------------------------------------------------------------------

    async def summarize(self, problem: Problem, pair: Pair, *, run: str) -> Experience:
        """The rewrite's own words, with what the profiles before and after show."""
        return self._summarize(problem, pair, run)

    def _summarize(self, problem: Problem, pair: Pair, run: str) -> Experience:
        plan = pair.attempt.plan
        first = pair.attempt.parent
        rewrite = self._rewrites.get(plan.rewrite or "")
        description = rewrite.description if rewrite else None
        title = description.title if description else plan.title
        strategy = description.strategy if description else plan.rationale
        tags = tags_of(problem, first.source, first.profile)
        evidence = _evidence(pair, problem)
        slow, fast = (function_text(s, problem.function) for s in (pair.slow[0], pair.fast[0]))
        kind = None if plan.rewrite is None else kind_of(plan.rewrite, plan.parameters)
        return Experience(
            id=experience_id(
                kind or title,
                str(pair.helpful),
                tags.bottleneck or "",
                tags.dialect or "",
                tags.dtype or "",
                tags.target or "",
            ),
            title=title if pair.helpful else f"Avoid here: {title}",
            text=f"{strategy}\n\n{evidence}",
            before=description.before if description else "",
            after=description.after if description else "",
            ratio=pair.ratio,
            helpful=pair.helpful,
            tags=tags,
            origin=Origin(
                figures=first.profile.provenance.value,
                author=self.name,
                version=__version__,
                run=run,
                kernel=problem.function,
                created=time.time(),
            ),
            rewrite=kind,
            slow=slow,
            fast=fast,
        )


def offline_roles(rewrites: Sequence[Rewrite] | None = None) -> Roles:
    """All four roles played by the catalogue."""
    agent = OfflineAgent(rewrites)
    return Roles(agent, agent, agent, agent)


def _parted(
    ranked: Sequence[tuple[Rewrite, Site]], evidence: Evidence
) -> tuple[list[tuple[Rewrite, Site]], list[tuple[Rewrite, Site]]]:
    """The best site of each kind that memory speaks for, and everything else."""
    proven: dict[str, tuple[Rewrite, Site]] = {}
    rest = []
    for rewrite, site in ranked:
        kind = kind_of(site.rewrite, site.parameters)
        if evidence.proven(site) and kind not in proven:
            proven[kind] = (rewrite, site)
        else:
            rest.append((rewrite, site))
    return list(proven.values()), rest


def _enough(
    proven: Sequence[tuple[Rewrite, Site]], count: int, evidence: Evidence
) -> list[tuple[Rewrite, Site]]:
    """As many proven steps as make it likely that one helps: the rest of the effort goes deeper."""
    chosen: list[tuple[Rewrite, Site]] = []
    failing = 1.0
    for rewrite, site in proven[:count]:
        chosen.append((rewrite, site))
        failing *= 1.0 - evidence.chance(site)
        if failing <= 1.0 - LIKELY:
            break
    return chosen


def _mixed(ranked: Sequence[tuple[Rewrite, Site]], count: int) -> list[tuple[Rewrite, Site]]:
    """The first ``count``, but no more than half of them from one rewrite while others wait."""
    most = max(1, (count + 1) // 2)
    used: dict[str, int] = {}
    first: list[tuple[Rewrite, Site]] = []
    rest: list[tuple[Rewrite, Site]] = []
    for rewrite, site in ranked:
        used[rewrite.name] = used.get(rewrite.name, 0) + 1
        (first if used[rewrite.name] <= most else rest).append((rewrite, site))
    return (first + rest)[:count]


def _as_plan(
    rewrite: Rewrite,
    site: Site,
    profile: Profile,
    shares: LineShares,
    evidence: Evidence,
) -> Plan:
    reasons = [site.benefit] if site.benefit else []
    reasons += limits(profile)
    share, nest = shares.of(site.line), shares.of_nest(site.line)
    if share >= 0.005:
        reasons.append(f"line {site.line} takes {share:.0%} of the time")
    elif nest >= 0.005:
        reasons.append(f"the loops around line {site.line} take {nest:.0%} of the time")
    drawn = evidence.ids(site)
    if drawn:
        reasons.append(evidence.reason(site))
    return Plan(
        title=site.description or rewrite.title,
        rationale="; ".join(reasons),
        rewrite=rewrite.name,
        parameters=dict(site.parameters),
        line=site.line,
        experiences=drawn,
        site=site,
    )


def _gist(rewrite: str | None, title: str) -> tuple[str | None, str]:
    """What a step is about, whatever line it has moved to."""
    return rewrite, re.sub(r"\blines? \d+", "line", title)


def _with_site(plan: Plan, site: Site) -> Plan:
    return evolve(
        plan,
        title=site.description or plan.title,
        parameters=dict(site.parameters),
        line=site.line,
        site=site,
    )


def _size(plan: Plan) -> int:
    return _size_of(plan.parameters)


def _size_of(parameters: object) -> int:
    """Product of all positive integers among the parameters: how much a block holds."""
    product = 1
    values = []
    if isinstance(parameters, Mapping):
        values = [value for name, value in parameters.items() if "line" not in name]
    while values:
        value = values.pop()
        if isinstance(value, bool):
            continue
        if isinstance(value, int) and value > 0:
            product *= value
        elif isinstance(value, list | tuple):
            values.extend(value)
        elif isinstance(value, dict):
            values.extend(value.values())
    return product


def _is_size_problem(attempt: Attempt) -> bool:
    """Whether the exact error speaks of memory that overflows or sizes that do not fit."""
    message = (attempt.error or "").lower()
    if attempt.failure is not None and attempt.failure.kind is FailureKind.MEMORY:
        return True
    return any(word in message for word in (*_TOO_MUCH, *_UNEVEN))


def _evidence(pair: Pair, problem: Problem) -> str:
    slow, fast = pair.slow[1], pair.fast[1]
    bound = pair.attempt.parent.profile.bound
    kind = f"{bound.value}-bound " if bound else ""
    verb = "Made" if pair.helpful else "Leaving it out kept"
    parts = [
        f"{verb} a {kind}{widest_float(problem.arguments).short} kernel on "
        f"{problem.target.name} {pair.ratio:.2f} times faster ({slow.provenance.value})"
    ]
    for name, words in _COUNTERS:
        before, after = slow.counters.get(name), fast.counters.get(name)
        if before is None or after is None:
            continue
        if abs(before - after) > 0.02 * max(before, after):
            parts.append(f"{words} {_mb(before)} against {_mb(after)}")
    if slow.issued.total_instructions != fast.issued.total_instructions:
        parts.append(
            f"{slow.issued.total_instructions} instructions against "
            f"{fast.issued.total_instructions}"
        )
    return "; ".join(parts) + "."


def _mb(size: float) -> str:
    return f"{size / 1e6:.4g} MB"
