"""Which experiences fit a kernel: structure first, then text; near-duplicates; diversity.

Pure functions, so that memory, planner and hover agree on what "fits" means.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from attrs import evolve, frozen

from accelopt_lsp.agents.roles import Experience, Tags

MEMORY_POLICIES = ("retrieval", "queue", "none")
"""What fits, the latest (the published one), or nothing, not even what a run itself learns."""
FAILURE_SHARE = 0.25
"""Share of what is retrieved that may be experiences of what to avoid."""
SIMILAR = 0.85
"""Two strategies whose words overlap this much are one."""
PER_STRATEGY = 3
"""At most so many retrieved experiences of one rewrite or title, while others are there."""
INSTRUCTIONS_WEIGHT = 0.30
ENGINES_WEIGHT = 0.06
_PLAIN_WEIGHTS = (
    (0.30, "bottleneck"),
    (0.11, "dialect"),
    (0.08, "dtype"),
    (0.05, "loop_pattern"),
    (0.05, "target"),
    (0.05, "shape_class"),
)
TEXT_WEIGHT = 0.15
_RATE_WEIGHT = 0.20
_GAIN_WEIGHT = 0.05
_UNTRUSTED = 0.05
MOST_QUALITY = _RATE_WEIGHT / 2 + _GAIN_WEIGHT
"""No experience's :func:`quality` is above this."""

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Lower-case words of a text, in any script."""
    return _WORD.findall(text.lower())


def strategy_key(experience: Experience) -> str:
    """What counts as the same strategy: the rewrite, or else the title."""
    name = experience.rewrite or " ".join(words(experience.title))
    return f"{name}/{'use' if experience.helpful else 'avoid'}"


def overlap(first: Iterable[str], second: Iterable[str]) -> float:
    """Jaccard overlap of two collections, 1.0 for two empty ones."""
    a, b = set(first), set(second)
    return len(a & b) / len(a | b) if a or b else 1.0


def plain_score(have: Tags, want: Tags) -> float:
    """The part of :func:`structure_score` that compares single tags."""
    score = 0.0
    for weight, name in _PLAIN_WEIGHTS:
        theirs = getattr(want, name)
        score += weight if theirs is not None and getattr(have, name) == theirs else 0.0
    return score


def structure_score(have: Tags, want: Tags) -> float:
    """How alike two situations are, from 0 to 1: bottleneck and instructions weigh most."""
    shared = INSTRUCTIONS_WEIGHT * overlap(have.instructions, want.instructions)
    return shared + ENGINES_WEIGHT * overlap(have.engines, want.engines) + plain_score(have, want)


def quality(experience: Experience) -> float:
    """What speaks for an experience in any situation: wins, and how much it gained.

    Whoever wrote an untrusted experience may claim anything, so its wins do not count.
    """
    gain = _GAIN_WEIGHT * min(1.0, experience.ratio - 1.0)
    if not experience.trusted:
        return gain - _UNTRUSTED
    return gain + _RATE_WEIGHT * (experience.win_rate - 0.5)


def near_duplicate(first: Experience, second: Experience) -> bool:
    """Same strategy in the same kind of situation, in the same or almost the same words."""
    if duplicate_class(first) != duplicate_class(second):
        return False
    return first.rewrite is not None or overlap(_wording(first), _wording(second)) >= SIMILAR


def duplicate_class(experience: Experience) -> tuple[str | bool | None, ...]:
    """What near-duplicates have in common; for a rewrite of the catalogue that is enough."""
    tags = experience.tags
    common = (experience.rewrite, experience.helpful, tags.bottleneck, tags.dialect)
    return common if experience.rewrite is None else (*common, tags.dtype, tags.target)


def _wording(experience: Experience) -> frozenset[str]:
    return frozenset(words(f"{experience.title} {experience.text}"))


def signature(experience: Experience) -> tuple[int, tuple[str, ...]]:
    """How many words word an experience, and some of them: near-duplicates share one of these.

    Of two sets of which :data:`SIMILAR` is shared, so many words of each are shared that not all
    of the first few, in whatever order both are in, can be missing in the other's first few
    (prefix filtering). Long words come first, since few texts share them.
    """
    found = sorted(_wording(experience), key=lambda word: (-len(word), word))
    first = len(found) - math.ceil(SIMILAR * len(found) - 1e-9) + 1
    return len(found), tuple(found[:first]) or ("",)


def merged(kept: Experience, added: Experience) -> Experience:
    """One experience in place of two near-duplicates; the larger gain gives the example.

    What somebody else exported never changes what was learned here, whichever came first.
    """
    if kept.trusted and not added.trusted:
        return kept
    learned_here = added.trusted and not kept.trusted
    example = added if learned_here or added.ratio > kept.ratio else kept
    return evolve(
        example,
        id=kept.id,
        wins=kept.wins + added.wins,
        losses=kept.losses + added.losses,
        pinned=kept.pinned or added.pinned,
        trusted=kept.trusted or added.trusted,
        reported_wins=max(kept.reported_wins, added.reported_wins),
        reported_losses=max(kept.reported_losses, added.reported_losses),
    )


class Choosable(Protocol):
    """What diversity looks at."""

    @property
    def strategy(self) -> str: ...

    @property
    def helpful(self) -> bool: ...


C = TypeVar("C", bound=Choosable)


def choose(ordered: Iterable[C], limit: int, failure_share: float = FAILURE_SHARE) -> list[C]:
    """At most ``limit`` of what comes best first, diverse and with a share of failures.

    What exceeds :data:`PER_STRATEGY` waits until everything else was looked at. Takes no more
    of ``ordered`` than it needs.

    Args:
        failure_share: largest share of what is to be avoided.
    """
    chosen: list[C] = []
    if limit <= 0:
        return chosen
    room = {True: limit, False: int(limit * failure_share)}
    seen: Counter[str] = Counter()
    waiting: list[C] = []
    held: Counter[bool] = Counter()
    for item in ordered:
        seen[item.strategy] += 1
        if not room[item.helpful]:
            continue
        if seen[item.strategy] > PER_STRATEGY:
            held[item.helpful] += 1
            if held[item.helpful] <= limit:
                waiting.append(item)
            continue
        room[item.helpful] -= 1
        chosen.append(item)
        if len(chosen) == limit:
            return chosen
    for item in waiting:
        if room[item.helpful] and len(chosen) < limit:
            room[item.helpful] -= 1
            chosen.append(item)
    return chosen


@frozen(slots=True)
class _Ranked:
    experience: Experience
    strategy: str
    helpful: bool


def rank(
    experiences: Sequence[Experience],
    want: Tags,
    limit: int,
    text_scores: Mapping[str, float] | None = None,
    failure_share: float = FAILURE_SHARE,
) -> list[Experience]:
    """The experiences to show a planner, best first, at most ``limit``.

    Args:
        text_scores: relevance of an experience's words, from 0 to 1, by id.
        failure_share: largest share of experiences of what to avoid.
    """
    scores = text_scores or {}

    def key(experience: Experience) -> tuple[float, str]:
        structure = structure_score(experience.tags, want)
        return -score(structure, quality(experience), scores.get(experience.id, 0.0)), experience.id

    ranked = (_Ranked(e, strategy_key(e), e.helpful) for e in sorted(experiences, key=key))
    return [item.experience for item in choose(ranked, limit, failure_share)]


def score(structure: float, quality: float, text: float = 0.0) -> float:
    """What experiences are ranked by."""
    return structure + quality + TEXT_WEIGHT * text


def experience_id(*parts: str) -> str:
    """Hash of what makes an experience: the same lesson learned twice has the same id."""
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]
