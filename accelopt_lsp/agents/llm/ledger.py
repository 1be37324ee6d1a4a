"""What a run has spent, by role and model, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from accelopt_lsp.agents.llm.settings import ModelSettings
from accelopt_lsp.agents.roles import OutOfBudget, Usage

CHARS_PER_TOKEN = 3.5
"""To estimate tokens where no count is known; code has short tokens."""


@frozen(slots=True)
class Spent:
    """What one request, or a sum of them, has cost.

    Attributes:
        calls: requests that were answered, unusable answers included.
        prompt, cached, completion: tokens as endpoints counted them; ``cached`` are part of
            ``prompt``.
        cost_usd: None where a price or a count is unknown.
        uncounted: answers that came without a count.
        charged_tokens, charged_usd: what counts towards the limits: the counts, and estimates
            in place of missing ones.
    """

    calls: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    cost_usd: float | None = 0.0
    uncounted: int = 0
    charged_tokens: int = 0
    charged_usd: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Spent(
            self.calls + other.calls,
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.completion + other.completion,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
            self.uncounted + other.uncounted,
            self.charged_tokens + other.charged_tokens,
            self.charged_usd + other.charged_usd,
        )

    @property
    def tokens(self) -> int | None:
        """Prompt and completion; None if an answer came without a count."""
        return None if self.uncounted else self.prompt + self.completion

    @property
    def usage(self) -> Usage:
        return Usage(
            calls=self.calls,
            tokens=self.tokens,
            cost_usd=self.cost_usd,
            prompt_tokens=self.prompt,
            completion_tokens=self.completion,
            cached_tokens=self.cached,
            uncounted=self.uncounted,
        )


def spent_on(
    model: ModelSettings, prompt_chars: int, reply_chars: int, usage: Mapping[str, Any] | None
) -> Spent:
    """What one answered request has cost.

    Args:
        prompt_chars, reply_chars: length of what was sent and of what came back, thoughts
            included, for the limits where the endpoint does not count.
        usage: the endpoint's count.
    """
    prompt, completion = (_count(usage, *names) for names in _NAMES)
    if prompt is None or completion is None:
        assumed = estimate(prompt_chars), estimate(reply_chars)
        return Spent(
            calls=1,
            cost_usd=None,
            uncounted=1,
            charged_tokens=sum(assumed),
            charged_usd=model.cost(assumed[0], 0, assumed[1]) or 0.0,
        )
    # Some endpoints count thoughts in the total only.
    completion = max(completion, (_count(usage, "total_tokens") or 0) - prompt)
    cached = min(_cached(usage), prompt)
    cost = model.cost(prompt, cached, completion)
    return Spent(1, prompt, cached, completion, cost, 0, prompt + completion, cost or 0.0)


_NAMES = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))


def _cached(usage: Mapping[str, Any] | None) -> int:
    """Tokens of the prompt that the endpoint had in its cache."""
    details = (usage or {}).get("prompt_tokens_details")
    found = _count(details if isinstance(details, Mapping) else None, "cached_tokens")
    return found or _count(usage, "prompt_cache_hit_tokens", "cache_read_input_tokens") or 0


def _count(usage: Mapping[str, Any] | None, *names: str) -> int | None:
    """The first of some counts that is there and can be one."""
    for name in names:
        value = (usage or {}).get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def estimate(chars: int) -> int:
    """About how many tokens so many characters are."""
    return round(chars / CHARS_PER_TOKEN)


@define(slots=True)
class Ledger:
    """Tokens and dollars of one run.

    Limits are looked at before each request, and every answer is booked when it ends, whatever
    it was good for: a run overshoots its limits by no more than the requests in flight.
    """

    budget_usd: float | None = None
    budget_tokens: int | None = None
    by_role: dict[tuple[str, str], Spent] = field(factory=dict)

    def add(self, role: str, model: str, spent: Spent) -> None:
        """Book one answer."""
        self.by_role[role, model] = self.by_role.get((role, model), Spent()) + spent

    def of(self, role: str) -> Usage:
        """What one role has spent, whatever its model."""
        return sum((s for (name, _), s in self.by_role.items() if name == role), Spent()).usage

    @property
    def total(self) -> Spent:
        return sum(self.by_role.values(), Spent())

    def check(self) -> None:
        """Whether another request may be sent.

        Raises:
            OutOfBudget: a limit is reached.
        """
        total = self.total
        if self.budget_tokens is not None and total.charged_tokens >= self.budget_tokens:
            raise OutOfBudget(f"the budget of {self.budget_tokens:,} tokens is used up")
        if self.budget_usd is not None and total.charged_usd >= self.budget_usd:
            raise OutOfBudget(f"the budget of ${self.budget_usd:.4g} is used up")
