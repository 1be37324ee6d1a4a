"""Which attempts matter: the best of each plan, notable pairs, the order of the last check."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from accelopt_lsp.agents.roles import Attempt, Candidate, Experience, Pair, Plan, Verdict


def ranked(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Those that have a latency, fastest first; ties by their place in the search."""
    usable = [a for a in attempts if a.latency_ms is not None]
    return sorted(usable, key=lambda a: (a.latency_ms or 0.0, a.order))


def best_of_plans(attempts: Iterable[Attempt]) -> list[Attempt]:
    """The fastest attempt of each plan, fastest first."""
    best: dict[tuple[int, ...], Attempt] = {}
    for attempt in ranked(attempts):
        best.setdefault(attempt.order[:3], attempt)
    return list(best.values())


def notable(
    attempts: Iterable[Attempt], wanted: Callable[[float], bool], most: int, *, slowest: bool
) -> list[Attempt]:
    """At most ``most`` attempts whose speed-up is ``wanted``, the most notable first.

    One a plan, and a plan that made something faster is none of what to avoid, whatever its other
    attempts did. One for each rewrite of a candidate, since the same rewrite with other parameters
    teaches the same lesson.
    """
    sign = 1.0 if slowest else -1.0
    known = [a for a in attempts if a.speedup is not None]
    gained = {a.order[:3] for a in known if (a.speedup or 0.0) > 1.0}
    usable = [
        a for a in known if wanted(a.speedup or 0.0) and not (slowest and a.order[:3] in gained)
    ]
    usable.sort(key=lambda a: (sign * (a.speedup or 0.0), a.order))
    chosen: dict[tuple[object, ...], Attempt] = {}
    for attempt in usable:
        plan = attempt.plan
        lesson = plan.rewrite if plan.rewrite is not None else attempt.order[2]
        chosen.setdefault((*attempt.order[:2], lesson), attempt)
    return list(chosen.values())[:most]


def fruitless(attempts: Iterable[Attempt], ancestors: Container[str], least: float) -> list[Plan]:
    """Plans that made no ancestor faster by more than a share of ``least``."""
    best: dict[tuple[int, ...], Attempt] = {}
    for attempt in attempts:
        if attempt.parent.id not in ancestors or attempt.verdict is Verdict.DUPLICATE:
            continue
        known = best.get(attempt.order[:3])
        if known is None or (attempt.speedup or 0.0) > (known.speedup or 0.0):
            best[attempt.order[:3]] = attempt
    return [a.plan for a in best.values() if (a.speedup or 0.0) <= 1 + least]


def simplest_first(attempts: Iterable[Attempt], alike: float) -> list[Attempt]:
    """Fastest first, but of those within a share of ``alike`` the one of fewest steps."""
    rest = ranked(attempts)
    ordered: list[Attempt] = []
    while rest:
        limit = (rest[0].latency_ms or 0.0) * (1 + alike)
        group = [a for a in rest if (a.latency_ms or 0.0) <= limit]
        chosen = min(group, key=lambda a: (len(a.parent.steps), a.latency_ms, a.order))
        ordered.append(chosen)
        rest.remove(chosen)
    return ordered


def shown(
    known: Sequence[Experience], learned: Sequence[Experience], most: int, policy: str
) -> tuple[Experience, ...]:
    """The experiences for the next planner, at most ``most``.

    A queue drops what came first. What was retrieved comes best first, so there the least fitting
    makes room for what this run has learned.
    """
    if most == 0:
        return ()
    if policy == "queue":
        return (*known, *learned)[-most:]
    return (*learned, *known)[:most]


def as_candidate(attempt: Attempt) -> Candidate:
    """A verified attempt as a member of the beam.

    Raises:
        ValueError: it has no source or no profile.
    """
    if attempt.source is None or attempt.profile is None:
        raise ValueError(f"{attempt.id} was never profiled")
    return Candidate(
        order=attempt.order,
        source=attempt.source,
        profile=attempt.profile,
        fingerprint=attempt.fingerprint,
        parent=attempt.parent.id,
        plan=attempt.plan,
        steps=(*attempt.parent.steps, attempt.plan),
    )


def as_pair(attempt: Attempt, *, helpful: bool) -> Pair:
    """An attempt and its parent as slow and fast kernel.

    Raises:
        ValueError: it has no source or no profile.
    """
    if attempt.source is None or attempt.profile is None:
        raise ValueError(f"{attempt.id} was never profiled")
    new = (attempt.source, attempt.profile)
    old = (attempt.parent.source, attempt.parent.profile)
    return Pair(attempt, old if helpful else new, new if helpful else old, helpful)


def by_latency(contenders: Sequence[Candidate | Attempt]) -> list[Candidate | Attempt]:
    """Members of the beam and attempts together, fastest first."""
    return sorted(contenders, key=lambda c: (c.latency_ms or 0.0, c.order))


def distinct(contenders: Iterable[Candidate | Attempt], most: int) -> list[Candidate | Attempt]:
    """The first ``most`` of an order that issue different instructions.

    A kernel that is only written differently would take the place of another idea.
    """
    seen: set[str] = set()
    chosen: list[Candidate | Attempt] = []
    for contender in contenders:
        stream = contender.profile.stream if contender.profile is not None else None
        if stream is not None and stream in seen:
            continue
        if stream is not None:
            seen.add(stream)
        chosen.append(contender)
        if len(chosen) == most:
            break
    return chosen
