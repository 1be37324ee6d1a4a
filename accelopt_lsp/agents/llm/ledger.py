"""What a run has spent, by role and model, and its limits."""

from __future__ import annotations

from attrs import define, field, frozen

from accelopt_lsp.agents.roles import OutOfBudget, Usage


@frozen(slots=True)
class Spent:
    """One reply's share of the bill.

    Attributes:
        prompt, cached, completion: tokens; ``cached`` are part of ``prompt``.
        cost_usd: None where prices are unknown.
        counted: the endpoint counted them; else they are estimated from the texts' lengths.
    """

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    cost_usd: float | None = None
    counted: bool = True

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion


@define(slots=True)
class Ledger:
    """Tokens and dollars of one run.

    Limits are looked at before each request, and requests run side by side: a run overshoots
    them by no more than the requests in flight.
    """

    budget_usd: float | None = None
    budget_tokens: int | None = None
    by_role: dict[tuple[str, str], Usage] = field(factory=dict)

    def add(self, role: str, model: str, spent: Spent) -> None:
        """Book one reply."""
        known = self.by_role.get((role, model), Usage())
        self.by_role[role, model] = known + Usage(
            calls=1,
            tokens=spent.tokens,
            cost_usd=spent.cost_usd,
            prompt_tokens=spent.prompt,
            completion_tokens=spent.completion,
        )

    def of(self, role: str) -> Usage:
        """What one role has spent, whatever its model."""
        return sum((u for (name, _), u in self.by_role.items() if name == role), Usage())

    @property
    def total(self) -> Usage:
        return sum(self.by_role.values(), Usage())

    def check(self) -> None:
        """Whether another request may be sent.

        Raises:
            OutOfBudget: a limit is reached.
        """
        total = self.total
        if self.budget_tokens is not None and total.tokens >= self.budget_tokens:
            raise OutOfBudget(f"the budget of {self.budget_tokens:,} tokens is used up")
        spent = total.cost_usd or 0.0
        if self.budget_usd is not None and spent >= self.budget_usd:
            raise OutOfBudget(f"the budget of ${self.budget_usd:.2f} is used up")
