"""Rules: one class each, from whose docstring hovers and documentation are made."""

from __future__ import annotations

from functools import cache

from accelopt_lsp.analysis.rules import calls, limits, operands, performance, source
from accelopt_lsp.analysis.rules.base import Context, Rule

__all__ = ["Context", "Rule", "all_rules", "explain", "find_rule"]


@cache
def all_rules() -> tuple[type[Rule], ...]:
    """All rules, in the order of their codes."""
    found: list[type[Rule]] = []
    for module in (source, limits, operands, calls, performance):
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Rule) and value is not Rule:
                found.append(value)
    return tuple(sorted(set(found), key=lambda rule: rule.code))


def find_rule(code: str) -> type[Rule] | None:
    """The rule of that code (``R023``) or name (``partition-limit``), or None."""
    wanted = code.strip()
    for rule in all_rules():
        if rule.code == wanted.upper() or rule.name == wanted.lower():
            return rule
    return None


def explain(code: str) -> str:
    """A rule's page, as markdown.

    Raises:
        KeyError: no such rule; the message lists the codes that exist.
    """
    rule = find_rule(code)
    if rule is None:
        known = ", ".join(r.code for r in all_rules())
        raise KeyError(f"no rule {code!r}; known: {known}")
    return rule.page()
