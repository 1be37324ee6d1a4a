"""``match`` statements: which case fits, and what it binds."""

from __future__ import annotations

import ast

from accelopt_lsp.analysis.affine import Undecided
from accelopt_lsp.analysis.comparisons import compare_values
from accelopt_lsp.analysis.doubt import leaves
from accelopt_lsp.analysis.expressions import truth
from accelopt_lsp.analysis.kinds import is_instance
from accelopt_lsp.analysis.machine import Machine, Signal
from accelopt_lsp.analysis.registry import executes
from accelopt_lsp.analysis.sequences import items_of
from accelopt_lsp.analysis.statements import forget
from accelopt_lsp.analysis.values import ListValue, Ref, Unknown, Value

_PLAIN = frozenset(f"builtins.{name}" for name in "int float str bool list tuple dict".split())


@executes(ast.Match)
def _match(m: Machine, node: ast.Match) -> Signal | None:
    subject = m.eval(node.subject)
    for case in node.cases:
        try:
            fits = _fits(m, case.pattern, subject)
            if fits and case.guard is not None:
                known = truth(m, m.eval(case.guard))
                if known is None:
                    raise Undecided("the guard of a case is not known")
                fits = known
        except Undecided as why:
            bodies = [s for c in node.cases for s in c.body]
            m.unknown(f"which case fits is not known: {why}", node.lineno)
            forget(m, bodies, "it depends on a case that is not known")
            for name in sorted({n for c in node.cases for n in _captured(c.pattern)}):
                m.scope.assign(name, Unknown("it depends on a case that is not known"))
            m.doubt = max(m.doubt, leaves(bodies))
            return None
        if fits:
            return m.run(case.body)
    return None


def _captured(pattern: ast.pattern) -> list[str]:
    names = (getattr(n, part, None) for n in ast.walk(pattern) for part in ("name", "rest"))
    return [name for name in names if name]


def _fits(m: Machine, pattern: ast.pattern, subject: Value) -> bool:
    """Whether a pattern fits; binds its names.

    Raises:
        NeedSplit, Undecided: that depends on the iteration, or is not known.
    """
    if isinstance(pattern, ast.MatchAs):
        if pattern.pattern is not None and not _fits(m, pattern.pattern, subject):
            return False
        if pattern.name is not None:
            m.scope.assign(pattern.name, subject)
        return True
    if isinstance(pattern, ast.MatchOr):
        return any(_fits(m, part, subject) for part in pattern.patterns)
    if isinstance(subject, Unknown):
        raise Undecided(subject.reason)
    if isinstance(pattern, ast.MatchValue):
        wanted = m.eval(pattern.value)
        known = truth(m, compare_values(m, pattern, ast.Eq(), subject, wanted))
    elif isinstance(pattern, ast.MatchSingleton):
        known = truth(m, compare_values(m, pattern, ast.Is(), subject, pattern.value))
    elif isinstance(pattern, ast.MatchSequence):
        return _fits_sequence(m, pattern, subject)
    elif isinstance(pattern, ast.MatchClass) and not pattern.kwd_patterns:
        cls = m.eval(pattern.cls)
        known = truth(m, is_instance(subject, cls))
        if known and pattern.patterns:
            if len(pattern.patterns) > 1 or not isinstance(cls, Ref) or cls.path not in _PLAIN:
                raise Undecided("this pattern is not analyzed")
            return _fits(m, pattern.patterns[0], subject)
    else:
        raise Undecided("this pattern is not analyzed")
    if known is None:
        raise Undecided("a value that is not known")
    return known


def _fits_sequence(m: Machine, pattern: ast.MatchSequence, subject: Value) -> bool:
    ordered = isinstance(subject, ListValue) and not subject.unordered
    if not ordered and not isinstance(subject, tuple):
        return False
    items = items_of(subject)
    if items is None or any(isinstance(part, ast.MatchStar) for part in pattern.patterns):
        raise Undecided("this pattern is not analyzed")
    if len(items) != len(pattern.patterns):
        return False
    return all(_fits(m, part, item) for part, item in zip(pattern.patterns, items, strict=True))
