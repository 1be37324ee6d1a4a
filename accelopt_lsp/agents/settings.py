"""Settings of a search, as plain data that a run keeps and a resumed run takes up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cattrs
from attrs import asdict, frozen
from cattrs.errors import BaseValidationError

from accelopt_lsp.agents.retrieval import MEMORY_POLICIES
from accelopt_lsp.profiler.base import VERIFICATION_SEEDS


@frozen(slots=True)
class SearchSettings:
    """Every choice of a search. The defaults suit the offline roles on one machine.

    Attributes:
        beam: candidates kept (B).
        plans: plans for each candidate in an iteration (N).
        attempts: tries at each plan (K).
        iterations: iterations (T).
        fix_rounds: rounds of repair of a failed attempt (F).
        top_k: pairs an iteration may add to the memory; at most half of them speed-ups.
        exp_n: experiences shown to the planner.
        fast_threshold: a speed-up over this becomes a pair.
        slow_threshold: a speed-up below this becomes a pair of what to avoid.
        seed: makes a run repeatable.
        budget_seconds: time for the search; the final verification comes on top.
        max_evaluations: evaluations of the search; None for no limit.
        concurrency: evaluations at once.
        patience: iterations without improvement after which the search stops.
        floor_margin: share above the attainable floor at which it stops.
        min_improvement: share of the latency by which a kernel must be faster to count as an
            improvement, over the best so far and over the baseline.
        verify_seeds: inputs for attempts that would enter beam or memory.
        final_seeds: inputs for the result.
        other_scales: (scale, shift) of further inputs, see
            :class:`~accelopt_lsp.profiler.base.Rescaling`: the first for attempts that would enter
            beam or memory, all for the result.
        memory_policy: ``retrieval`` (what fits), ``queue`` (the latest) or ``none``.
        failure_share: largest share of experiences of what to avoid.
        allow_lower_precision: narrower types than the baseline's are accepted.
        lines: first and last line of the baseline's text that steps must be about; None is all.
    """

    beam: int = 2
    plans: int = 6
    attempts: int = 1
    iterations: int = 10
    fix_rounds: int = 2
    top_k: int = 8
    exp_n: int = 16
    fast_threshold: float = 1.04
    slow_threshold: float = 1 / 1.15
    seed: int = 0
    budget_seconds: float | None = 300.0
    max_evaluations: int | None = None
    concurrency: int = 2
    patience: int = 3
    floor_margin: float = 0.02
    min_improvement: float = 0.005
    verify_seeds: tuple[int, ...] = (0,)
    final_seeds: tuple[int, ...] = VERIFICATION_SEEDS
    other_scales: tuple[tuple[float, float], ...] = ((64.0, 0.5), (2.0**-10, 0.0))
    memory_policy: str = "retrieval"
    failure_share: float = 0.25
    allow_lower_precision: bool = False
    lines: tuple[int, int] | None = None

    def __attrs_post_init__(self) -> None:
        for name in ("beam", "plans", "attempts", "concurrency", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("iterations", "fix_rounds", "top_k", "exp_n"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        if any(scale <= 0 for scale, _ in self.other_scales):
            raise ValueError("other_scales must be positive")
        if self.memory_policy not in MEMORY_POLICIES:
            raise ValueError(f"memory_policy must be one of {', '.join(MEMORY_POLICIES)}")

    @classmethod
    def published(cls) -> SearchSettings:
        """The setting of the AccelOpt paper (MLSys 2026)."""
        return cls(
            beam=6,
            plans=12,
            attempts=2,
            iterations=16,
            top_k=8,
            exp_n=16,
            budget_seconds=None,
            patience=16,
            memory_policy="queue",
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SearchSettings:
        """Inverse of :meth:`to_json`; settings of later versions are skipped.

        Raises:
            ValueError: a value has the wrong type or is out of range.
        """
        try:
            return cattrs.Converter().structure(data, cls)
        except (BaseValidationError, TypeError) as error:
            raise ValueError(f"stored settings cannot be read: {error}") from error
