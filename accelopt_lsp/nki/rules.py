"""The table of rules: what is rejected, and whether running or reading a kernel decides it.

The values live in ``data/rules.toml``. Rules that static analysis decides have a class in
``analysis/rules/``; :class:`~accelopt_lsp.profiler.simulator.errors.KernelRejected` carries the
codes of those that execution decides.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files

from attrs import frozen

from accelopt_lsp.nki.diagnostics import Severity
from accelopt_lsp.nki.dialects import Dialect


class Decided(StrEnum):
    """What tells whether a kernel breaks a rule."""

    EXECUTION = "execution"
    ANALYSIS = "analysis"
    BOTH = "both"
    NOBODY = "nobody"


@frozen(slots=True)
class RuleEntry:
    """One rule.

    Attributes:
        code, name: how it is called in messages and settings.
        decided: by running a kernel, by reading it, by both, or by neither.
        dialects: where it is decided.
        what: what it finds, one sentence.
        instead: what to do.
        why: why that is rejected, if ``what`` does not say so.
        example: a line of code that breaks it.
        reason: why nothing decides it.
        severity: what reading a kernel makes of it while no NKI version is known.
        certain_from: NKI version from which it is sure to fail, and an error.
    """

    code: str
    name: str
    decided: Decided
    what: str
    instead: str
    dialects: tuple[Dialect, ...] = ()
    why: str = ""
    example: str = ""
    reason: str = ""
    severity: Severity = Severity.ERROR
    certain_from: str | None = None

    @property
    def by_execution(self) -> bool:
        return self.decided in (Decided.EXECUTION, Decided.BOTH)

    @property
    def by_analysis(self) -> bool:
        return self.decided in (Decided.ANALYSIS, Decided.BOTH)

    def page(self) -> str:
        """Its documentation as markdown, under the headings that all rules have."""
        parts = [f"## What it does\n{self.what}"]
        if self.why:
            parts.append(f"## Why\n{self.why}")
        if self.example:
            parts.append(f"## Example\n```python\n{self.example.strip()}\n```")
        parts.append(f"## Use instead\n{self.instead}")
        if self.reason:
            parts.append(f"## Nothing decides it\n{self.reason}")
        return "\n\n".join(parts)


@cache
def rule_table() -> Mapping[str, RuleEntry]:
    """All rules by code, in order."""
    text = files("accelopt_lsp.nki").joinpath("data/rules.toml").read_text("utf-8")
    return {
        code: RuleEntry(
            code=code,
            decided=Decided(row.pop("decided")),
            dialects=tuple(Dialect(d) for d in row.pop("dialects", ())),
            severity=Severity(row.pop("severity", "error")),
            **row,
        )
        for code, row in tomllib.loads(text).items()
    }
