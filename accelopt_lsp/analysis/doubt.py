"""Code that may not run: what follows an exit (``return``, ``break``) that nobody can decide.

Such code is visited, so that its limits are checked, but nothing in it is counted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from attrs import evolve

from accelopt_lsp.analysis.machine import Machine

NONE, ITERATION, LOOP, FUNCTION = range(4)
"""How much may not run: the rest of an iteration, of a loop, of a function."""
_EXITS: WeakKeyDictionary[ast.AST, int] = WeakKeyDictionary()


def leaves(body: Iterable[ast.stmt]) -> int:
    """How far statements may leave the code around them."""
    return max(map(_leaves, body), default=NONE)


def _leaves(node: ast.stmt) -> int:
    found = _EXITS.get(node)
    if found is None:
        if isinstance(node, ast.Return):
            found = FUNCTION
        elif isinstance(node, ast.Break):
            found = LOOP
        elif isinstance(node, ast.Continue):
            found = ITERATION
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found = NONE
        else:
            parts = ("body", "orelse", "finalbody", "handlers")
            inner = [s for part in parts for s in getattr(node, part, ())]
            inner += [s for case in getattr(node, "cases", ()) for s in case.body]
            found = max(
                (leaves(s.body) if isinstance(s, ast.ExceptHandler) else _leaves(s) for s in inner),
                default=NONE,
            )
            if isinstance(node, ast.For | ast.AsyncFor | ast.While) and found < FUNCTION:
                found = NONE
        _EXITS[node] = found
    return found


def may_end(node: ast.While) -> bool:
    """Whether a loop has an end by its text, exceptions apart."""
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
    return not endless or leaves(node.body) > ITERATION


def end_of_loop(m: Machine, before: int, records: int) -> None:
    """A loop ends. Where it may have been left early, none of its iterations is sure to run.

    Args:
        before: the doubt when it began.
        records: how many there were then.
    """
    if m.doubt <= before:
        return
    if m.doubt >= LOOP:
        for position in range(records, len(m.records)):
            m.records[position] = evolve(m.records[position], doubtful=True)
    if m.doubt < FUNCTION:
        m.doubt = before


def set_apart(m: Machine) -> None:
    """At the end of a run: doubtful records are not counted."""
    if any(record.doubtful for record in m.records):
        m.uncounted.extend(record for record in m.records if record.doubtful)
        m.records[:] = [record for record in m.records if not record.doubtful]
