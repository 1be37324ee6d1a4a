"""What the experiences at hand say about a step of the catalogue, before it is tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from accelopt_lsp.agents.retrieval import structure_score
from accelopt_lsp.agents.roles import Experience, Plan, Tags
from accelopt_lsp.rewrites.base import Site

_CHOICES = ("pattern", "engine")
"""Parameters that make another strategy of a rewrite, and not only another place or size."""
OTHER_CHOICE = 0.5
"""How much less an experience says about another choice of the same rewrite."""
LEAST = 0.01
"""Expected savings below this share of the time say nothing."""


def kind_of(rewrite: str, parameters: Mapping[str, Any]) -> str:
    """A rewrite with its choice, such as ``fuse-instructions:activation-sum``."""
    chosen = [str(parameters[name]) for name in _CHOICES if parameters.get(name)]
    return ":".join((rewrite, *chosen))


@frozen(slots=True)
class _Says:
    """One experience about one kind of step: how likely it comes true, and what that saves."""

    experience: Experience
    chance: float
    saved: float


@frozen(slots=True)
class Evidence:
    """Experiences by what they say about the situation at hand.

    Attributes:
        by_kind: what is said about each kind of step, from experiences of that kind.
        by_rewrite: the same by rewrite, whatever its choice.
        done: kinds of step that the kernel has behind it: after its best place, a strategy's
            other places in the same kernel say little about it.
    """

    by_kind: Mapping[str, tuple[_Says, ...]] = field(factory=dict)
    by_rewrite: Mapping[str, tuple[_Says, ...]] = field(factory=dict)
    done: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, experiences: Sequence[Experience], want: Tags, steps: Sequence[Plan] = ()
    ) -> Evidence:
        """What experiences say about a situation.

        The pair behind an experience counts as its first win, and chances shrink with the
        difference between the situations.
        """
        kinds: dict[str, list[_Says]] = {}
        rewrites: dict[str, list[_Says]] = {}
        for experience in experiences:
            if experience.rewrite is None or experience.ratio <= 1.0:
                continue
            likeness = structure_score(experience.tags, want)
            rate = (experience.wins + 2) / (experience.wins + experience.losses + 3)
            says = _Says(experience, likeness * rate, 1.0 - 1.0 / experience.ratio)
            kinds.setdefault(experience.rewrite, []).append(says)
            rewrites.setdefault(experience.rewrite.partition(":")[0], []).append(says)
        done = {kind_of(p.rewrite, p.parameters) for p in steps if p.rewrite is not None}
        return cls(
            {kind: tuple(found) for kind, found in kinds.items()},
            {name: tuple(found) for name, found in rewrites.items()},
            frozenset(done),
        )

    def expected(self, site: Site) -> float:
        """Share of the time that a step may save; negative if it may rather cost some, else 0."""
        kind = kind_of(site.rewrite, site.parameters)
        if kind in self.done:
            return 0.0
        own = self.by_kind.get(kind, ())
        best = max((s.chance * s.saved for s in own if s.experience.helpful), default=0.0)
        worst = max((s.chance * s.saved for s in own if not s.experience.helpful), default=0.0)
        if not own:
            others = [s for s in self.by_rewrite.get(site.rewrite, ()) if s.experience.helpful]
            best = OTHER_CHOICE * max((s.chance * s.saved for s in others), default=0.0)
        # What helped here and harmed there is neither proven nor to be avoided.
        found = max(0.0, best - worst) if best else -worst
        return found if abs(found) >= LEAST else 0.0

    def proven(self, site: Site) -> bool:
        """Whether an experience of this very kind of step speaks for it."""
        known = kind_of(site.rewrite, site.parameters) in self.by_kind
        return known and self.expected(site) > 0

    def chance(self, site: Site) -> float:
        """How likely a proven step helps, by the experience that says so most clearly."""
        own = self.by_kind.get(kind_of(site.rewrite, site.parameters), ())
        return max((s.chance for s in own if s.experience.helpful), default=0.0)

    def ids(self, site: Site) -> tuple[str, ...]:
        """Experiences that a plan for this step draws on: those of its very kind.

        What comes of the step says nothing for or against another choice of the rewrite.
        """
        own = self.by_kind.get(kind_of(site.rewrite, site.parameters), ())
        return tuple(s.experience.id for s in own)

    def reason(self, site: Site) -> str:
        """What memory says about a step that draws on it, in words."""
        own = self.by_kind[kind_of(site.rewrite, site.parameters)]
        best = max(own, key=lambda s: (s.experience.helpful, s.chance * s.saved))
        verb = "faster" if best.experience.helpful else "slower"
        where = best.experience.origin.kernel or "another kernel"
        return f"made {where} {best.experience.ratio:.2f} times {verb} before"
