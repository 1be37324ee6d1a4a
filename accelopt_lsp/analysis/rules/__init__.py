"""Rules: one class each, from whose docstring hovers and documentation are made.

Rules of the table (:mod:`~accelopt_lsp.nki.rules`) that lowering alone decides need no code: their
classes are made from the table.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

from accelopt_lsp.analysis.rules import (
    calls,
    constructs,
    dependences,
    endings,
    engines,
    instructions,
    limits,
    operands,
    overlap,
    source,
    texts,
    traffic,
)
from accelopt_lsp.analysis.rules.base import Context, FileContext, Rule, Tier
from accelopt_lsp.analysis.rules.migration import MIGRATION_RULES, without_repeats
from accelopt_lsp.analysis.rules.slow import one_per_cause
from accelopt_lsp.nki.rules import RuleEntry, rule_table

__all__ = [
    "Context",
    "FileContext",
    "Rule",
    "Tier",
    "all_rules",
    "explain",
    "find_rule",
    "known_codes",
    "one_per_cause",
    "rule_names",
    "rules_of",
    "without_repeats",
]


_MODULES = (
    source,
    texts,
    constructs,
    limits,
    operands,
    calls,
    dependences,
    endings,
    traffic,
    engines,
    instructions,
    overlap,
)


@cache
def all_rules() -> tuple[type[Rule], ...]:
    """All rules that static analysis decides, in the order of their codes."""
    found: list[type[Rule]] = []
    for module in _MODULES:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Rule) and "code" in vars(value):
                found.append(value)
    found.extend(MIGRATION_RULES)
    coded = {rule.code for rule in found}
    for entry in rule_table().values():
        if entry.by_analysis and entry.code not in coded:
            found.append(_rule_of(entry))
    return tuple(sorted(set(found), key=lambda rule: rule.code))


@cache
def rules_of(tier: Tier) -> tuple[type[Rule], ...]:
    """The rules of one tier, in the order of their codes."""
    return tuple(rule for rule in all_rules() if rule.tier is tier)


def _rule_of(entry: RuleEntry) -> type[Rule]:
    title = entry.name.title().replace("-", "")
    members = {
        "__doc__": entry.page(),
        "code": entry.code,
        "name": entry.name,
        "severity": entry.severity,
        "certain_from": entry.certain_from,
    }
    return type(title, (Rule,), members)


@cache
def known_codes() -> tuple[str, ...]:
    """Codes of all rules, also of those that only running a kernel decides, or nothing."""
    return tuple(sorted({rule.code for rule in all_rules()} | set(rule_table())))


def rule_names() -> dict[str, str]:
    """Names of all rules by code, in the order of the codes."""
    names = {entry.code: entry.name for entry in rule_table().values()}
    names |= {rule.code: rule.name for rule in all_rules()}
    return {code: names[code] for code in sorted(names)}


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
        KeyError: no such rule; the message names those that look alike.
    """
    rule = find_rule(code)
    if rule is not None:
        return rule.page()
    wanted = code.strip()
    for entry in rule_table().values():
        if wanted.upper() == entry.code or wanted.lower() == entry.name:
            return f"# {entry.code}: {entry.name}\n\n{entry.page()}\n"
    names = rule_names()
    alike = get_close_matches(wanted.upper(), names) or get_close_matches(
        wanted.lower(), names.values()
    )
    hint = f"; like it: {', '.join(alike)}" if alike else ""
    raise KeyError(f"no rule {code!r}{hint}; accelopt explain lists all")
