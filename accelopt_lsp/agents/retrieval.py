"""Which experiences fit a kernel: structure first, then text; near-duplicates; diversity.

Pure functions, so that memory, planner and hover agree on what "fits" means.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import evolve

from accelopt_lsp.agents.roles import Experience, Tags

FAILURE_SHARE = 0.25
"""Share of what is retrieved that may be experiences of what to avoid."""
SIMILAR = 0.85
"""Two strategies whose words overlap this much are one."""
PER_STRATEGY = 3
"""At most so many retrieved experiences of one rewrite or title, while others are there."""

_WORD = re.compile(r"[a-z0-9_]+")


def words(text: str) -> list[str]:
    """Lower-case words of a text."""
    return _WORD.findall(text.lower())


def strategy_key(experience: Experience) -> str:
    """What counts as the same strategy: the rewrite, or else the title."""
    name = experience.rewrite or " ".join(words(experience.title))
    return f"{name}/{'use' if experience.helpful else 'avoid'}"


def overlap(first: Iterable[str], second: Iterable[str]) -> float:
    """Jaccard overlap of two collections, 1.0 for two empty ones."""
    a, b = set(first), set(second)
    return len(a & b) / len(a | b) if a or b else 1.0


def structure_score(have: Tags, want: Tags) -> float:
    """How alike two situations are, from 0 to 1: bottleneck and instructions weigh most."""
    parts = [(0.35, overlap(have.instructions, want.instructions))]
    for weight, mine, theirs in (
        (0.30, have.bottleneck, want.bottleneck),
        (0.12, have.dialect, want.dialect),
        (0.09, have.dtype, want.dtype),
        (0.07, have.loop_pattern, want.loop_pattern),
        (0.07, have.target, want.target),
    ):
        parts.append((weight, 1.0 if theirs is not None and mine == theirs else 0.0))
    return sum(weight * value for weight, value in parts)


def near_duplicate(first: Experience, second: Experience) -> bool:
    """Same strategy in the same kind of situation, in the same or almost the same words."""
    if first.helpful != second.helpful or first.tags.bottleneck != second.tags.bottleneck:
        return False
    if first.tags.dialect != second.tags.dialect or first.rewrite != second.rewrite:
        return False
    if first.rewrite is not None:
        return first.tags.dtype == second.tags.dtype and first.tags.target == second.tags.target
    return (
        overlap(words(f"{first.title} {first.text}"), words(f"{second.title} {second.text}"))
        >= SIMILAR
    )


def merged(kept: Experience, added: Experience) -> Experience:
    """One experience in place of two near-duplicates; the larger gain gives the example.

    What somebody else exported never changes what was learned here.
    """
    if kept.trusted and not added.trusted:
        return kept
    example = added if added.ratio > kept.ratio else kept
    return evolve(
        example,
        id=kept.id,
        wins=kept.wins + added.wins,
        losses=kept.losses + added.losses,
        pinned=kept.pinned or added.pinned,
        trusted=kept.trusted or added.trusted,
    )


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
    if limit <= 0:
        return []
    scores = text_scores or {}

    def key(experience: Experience) -> tuple[float, str]:
        score = structure_score(experience.tags, want)
        score += 0.15 * scores.get(experience.id, 0.0)
        # Whoever wrote an untrusted experience may claim any number of wins.
        score += 0.20 * (experience.win_rate - 0.5) if experience.trusted else 0.0
        score += 0.05 * min(1.0, experience.ratio - 1.0)
        score += 0.0 if experience.trusted else -0.05
        return (-score, experience.id)

    ordered = sorted(experiences, key=key)
    ordered = _diverse(ordered, strategy_key, PER_STRATEGY)
    failures = int(limit * failure_share)
    chosen: list[Experience] = []
    avoided = 0
    for experience in ordered:
        if len(chosen) == limit:
            break
        if not experience.helpful:
            if avoided == failures:
                continue
            avoided += 1
        chosen.append(experience)
    return chosen


def _diverse(
    ordered: Sequence[Experience], group: Callable[[Experience], str], most: int
) -> list[Experience]:
    """The same, with what exceeds ``most`` of a group moved to the end."""
    seen: Counter[str] = Counter()
    first: list[Experience] = []
    rest: list[Experience] = []
    for experience in ordered:
        name = group(experience)
        seen[name] += 1
        (first if seen[name] <= most else rest).append(experience)
    return first + rest


def experience_id(*parts: str) -> str:
    """Hash of what makes an experience: the same lesson learned twice has the same id."""
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]
