"""``while`` loops: followed one iteration after the other as long as their condition is known.

A loop that repeats itself is noticed: an iteration that leaves everything as it was has no last
one. Nothing in such a loop is counted, nor in one of which nobody knows when it ends.
"""

from __future__ import annotations

import ast

from accelopt_lsp.analysis.doubt import FUNCTION, LOOP, may_end
from accelopt_lsp.analysis.expressions import check_condition, truth
from accelopt_lsp.analysis.heap import changes_anything
from accelopt_lsp.analysis.loops import uncounted
from accelopt_lsp.analysis.machine import BREAK, RETURN, Machine, Signal, executes
from accelopt_lsp.analysis.statements import forget

MAX_WHILE = 10_000
MAX_ENDLESS = 50
"""Iterations of a ``while True`` that only an exception could end."""


@executes(ast.While)
def _while(m: Machine, node: ast.While) -> Signal | None:
    before = m.doubt
    start = m.snapshot()
    for _ in range(MAX_WHILE if may_end(node) else MAX_ENDLESS):
        began = m.journal.mark()
        value = m.eval(node.test)
        check_condition(m, node.test, value)
        known = truth(m, value)
        if known is None:
            return _while_not_counted(m, node)
        if not known:
            return m.run(node.orelse)
        mark = m.snapshot()
        signal = m.run(node.body)
        if signal is not None and signal[0] == BREAK:
            _leave_doubt(m, node, before)
            return None
        if signal is not None and signal[0] == RETURN:
            return signal
        if before < LOOP <= m.doubt:
            # It may have ended in this iteration, and in each that comes after it.
            m.restore(mark)
            return _while_not_counted(m, node)
        _leave_doubt(m, node, before)
        if not changes_anything(m.journal.entries[began:], m.scope):
            break
    m.restore(start)
    return _while_not_counted(m, node, "this loop does not seem to end")


def _while_not_counted(
    m: Machine,
    node: ast.While,
    why: str = "the number of iterations of this loop is not known",
) -> Signal | None:
    m.unknown(why, node.lineno)
    forget(m, node.body, "it is set in a loop that is not counted")
    uncounted(m, node, "?", lambda: m.run(node.body))
    return None


def _leave_doubt(m: Machine, node: ast.While, before: int) -> None:
    """An iteration ends of which a part may not have run: what it sets is not known."""
    if before < m.doubt < FUNCTION:
        forget(m, node.body, "it depends on a condition that is not known")
        m.doubt = before
