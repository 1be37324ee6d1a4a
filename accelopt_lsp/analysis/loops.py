"""Loops: each body is visited once per distinct context, with the loop variable symbolic.

A visit stands for a part of the iterations. It is undone and repeated for smaller parts when
the body needs to tell iterations apart (a condition, a ragged last tile), and for the first
iteration alone when a variable changes its nature from one iteration to the next. Integers
that grow by a constant become linear in the loop variable.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from attrs import evolve

from accelopt_lsp.analysis.affine import (
    Affine,
    Linear,
    NeedSplit,
    Undecided,
    Var,
    add,
    scale,
    split,
    subtract,
    symbol,
)
from accelopt_lsp.analysis.carried import assigned_names, carried_names
from accelopt_lsp.analysis.doubt import FUNCTION, end_of_loop, leaves
from accelopt_lsp.analysis.expressions import truth
from accelopt_lsp.analysis.heap import NO_CHANGES, Cell, changes_of, deltas, remembers
from accelopt_lsp.analysis.machine import (
    BREAK,
    MAX_PARTS,
    RETURN,
    LoopVisit,
    Machine,
    OutOfSteps,
    Signal,
    evaluates,
    executes,
)
from accelopt_lsp.analysis.scope import Scope
from accelopt_lsp.analysis.sequences import iteration_of, use_up
from accelopt_lsp.analysis.sets import make_set
from accelopt_lsp.analysis.statements import bind, forget
from accelopt_lsp.analysis.tree import walk
from accelopt_lsp.analysis.values import (
    Function,
    Iteration,
    ListValue,
    Range,
    Repeat,
    Unknown,
    Value,
    View,
    flat_length,
    replace_var,
    type_signature,
    written_out,
)

MAX_UNSETTLED = 3
FEW_TRIPS = 8
"""Loops with so few iterations are not worth several attempts to take them together."""


@executes(ast.For, ast.AsyncFor)
def _for(m: Machine, node: ast.For) -> Signal | None:
    value = m.eval(node.iter)
    if isinstance(value, Range) and not m.foreign:
        m.loop_kinds[node.lineno, ast.unparse(node.target)] = value.kind
    if isinstance(value, View):
        text = f"{value.storage.name or 'a tensor'} cannot be iterated over; loop over indices"
        m.find("R005", text, node.iter)
    try:
        use_up(m, value)
    except Undecided as why:
        value = Unknown(str(why))
    found = iteration_of(value) if not isinstance(value, Unknown) else None
    if found is None:
        reason = value.reason if isinstance(value, Unknown) else "the loop's items are not known"
        m.unknown(f"the loop is not counted: {reason}", node.lineno)
        bind(m, node.target, Unknown(reason, number=True))
        uncounted(m, node, _trips_text(node.iter), lambda: m.run(node.body))
        return None
    start = m.snapshot()
    signal = Loop(m, node, node.target, found, lambda: m.run(node.body)).run()
    if isinstance(value, ListValue) and flat_length(value.items) != found.length and signal is None:
        m.restore(start)
        reason = "a list that changes while a loop goes over it"
        m.unknown(reason, node.lineno)
        m.set_items(value, [Unknown(reason)])
        bind(m, node.target, Unknown(reason))
        uncounted(m, node, _trips_text(node.iter), lambda: m.run(node.body))
        forget(m, node.body, reason)
        return None
    if signal is None and node.orelse:
        return m.run(node.orelse)
    return None if signal is not None and signal[0] == BREAK else signal


def uncounted(m: Machine, node: ast.For | ast.While, trips: str, body: Callable[[], Any]) -> None:
    """Visit a body whose iterations cannot be counted: its limits are checked all the same.

    Args:
        trips: the number of iterations as it is written.
    """
    records, visits, before = len(m.records), len(m.visits), m.doubt
    if m.in_kernel and not m.foreign:
        name = ast.unparse(node.target) if isinstance(node, ast.For) else ""
        end = node.end_lineno or node.lineno
        m.uncounted_loops.append((node.lineno, name.partition(" ")[0], trips, end))
    body()
    m.uncounted.extend(m.records[records:])
    del m.records[records:]
    # Loops inside: how often each iterates is known, but not how often it is entered.
    for visit in m.visits[visits:]:
        m.uncounted_loops.append((visit.line, visit.variable, str(visit.trips), visit.end_line))
    del m.visits[visits:]
    m.doubt = max(before, FUNCTION if leaves(node.body) == FUNCTION else 0)
    forget(m, [node], "it is set in a loop that is not counted")


def _trips_text(node: ast.expr) -> str:
    """The number of iterations as it is written: ``M // 128`` for ``range(M // 128)``."""
    if isinstance(node, ast.Call) and not node.keywords:
        if len(node.args) == 1:
            return ast.unparse(node.args[0])
        if len(node.args) in (2, 3):
            start, stop, *step = map(ast.unparse, node.args)
            span = stop if start == "0" else f"{stop} - {start}"
            if not step:
                return span
            return f"ceil({span if start == '0' else f'({span})'} / {step[0]})"
    return f"len({ast.unparse(node)})"


class Loop:
    """One execution of a loop, cut into parts as needed."""

    def __init__(
        self,
        m: Machine,
        node: ast.For | ast.comprehension,
        target: ast.expr,
        over: Iteration,
        body: Callable[[], Signal | None],
        *,
        visible: bool = True,
        name: str | None = None,
    ) -> None:
        self.m = m
        self.visible = visible and not m.foreign
        self.node = node
        self.target = target
        self.over = over
        self.body = body
        self.name = ast.unparse(target) if name is None else name
        own = not m.foreign
        self.line = getattr(node, "lineno", m.line) if own else m.line
        self.end_line = (getattr(node, "end_lineno", None) if own else None) or self.line
        self.carried: tuple[str, ...] = ()
        self.assigned = tuple(_stored_names(target))
        if isinstance(node, ast.For | ast.AsyncFor):
            self.carried = carried_names(node)
            self.assigned = assigned_names(node)
        self.parts = 0
        self.unsettled = 0
        self.too_many = False
        self.ended: int | None = None
        self.changes = NO_CHANGES

    def run(self) -> Signal | None:
        m, length = self.m, self.over.length
        mark = m.snapshot()
        if self.visible and m.doubt:
            m.uncounted_loops.append((self.line, self.name, str(length), self.end_line))
            self.visible = False
        if self.visible:
            self._note_visit()
        start = m.snapshot()
        try:
            signal = self._run_parts(self._first_parts())
            end_of_loop(m, mark[-1], mark[1])
            if self.ended is not None and self.visible:
                self._note_end(mark[4], self.ended)
            return signal
        except OutOfSteps:
            if (self.parts <= 1 and not self.too_many) or not m.budget.grant():
                raise
        # Telling iterations apart takes too long: one coarse visit for all of them.
        m.restore(start)
        self.parts = 0
        names = self._carried_names()
        try:
            signal = self._visit(0, length, opaque=True)
            self._forget_carried(names)
            end_of_loop(m, mark[-1], mark[1])
            return signal
        except NeedSplit:
            m.restore(mark)
            m.unknown("the iterations of this loop differ in too many ways", self.line)
            return None

    def _forget_carried(self, names: list[Cell]) -> None:
        """After a coarse visit, what iterations hand on is not known."""
        changed = self._changed(names)
        if changed is None or (changed and deltas(changed) != []):
            self.m.unknown("the iterations of this loop differ in too many ways", self.line)
        for cell in (*(changed or names), *self.changes.cells):
            unknown = Unknown("a loop changes it in too many ways")
            self.m.journal.set_item(cell.table, cell.key, unknown, cell.owner)

    def _note_visit(self) -> None:
        m = self.m
        times = m.times
        length = self.over.length
        m.visits.append(
            LoopVisit(self.line, self.end_line, self.name, length, length * times, times)
        )

    def _note_end(self, position: int, trips: int) -> None:
        """The loop was left by ``break`` or ``return``."""
        visits = self.m.visits
        noted = visits[position]
        visits[position] = evolve(noted, trips=trips, total=trips * noted.entries)

    def _first_parts(self) -> deque[tuple[int, int]]:
        length = self.over.length
        if length <= FEW_TRIPS and self.node in self.m.split_loops:
            return deque((i, i + 1) for i in range(length))
        return deque([(0, length)] if length else [])

    def _run_parts(self, queue: deque[tuple[int, int]]) -> Signal | None:
        m = self.m
        if self.over.length > 1 and not m.carries:
            # A number that one iteration hands to the next.
            values = (m.scope.names.get(name) for name in self.carried)
            m.carries = any(isinstance(value, int | Affine) for value in values)
        while queue:
            low, high = queue.popleft()
            if not self.over.symbolic and high - low > 1:
                queue.appendleft((low + 1, high))
                high = low + 1
            self.parts += 1
            if self.parts > MAX_PARTS:
                raise OutOfSteps
            mark = m.snapshot()
            try:
                signal, done = self._settle(low, high)
            except NeedSplit as need:
                if need.var is not self._var:
                    raise
                m.restore(mark)
                parts = _cut(low, high, need.cuts)
                m.split_loops.add(self.node)
                self.too_many = len(parts) > MAX_PARTS
                if self.too_many:
                    raise OutOfSteps from None
                queue.extendleft(reversed(parts))
                continue
            if signal is not None and signal[0] in (BREAK, RETURN):
                if high - low > 1:
                    m.restore(mark)
                    queue.appendleft((low, low + 1))
                    continue
                self.ended = high
                return signal
            if done < high:
                queue.appendleft((done, high))
        return None

    def _settle(self, low: int, high: int) -> tuple[Signal | None, int]:
        """Visit a part so that what iterations carry comes out right; gives where it ended."""
        m = self.m
        if high - low == 1:
            return self._visit(low, high), high
        names = self._carried_names()
        mark = m.snapshot()
        signal = self._visit(low, high)
        changed = self._changed(names)
        if changed is not None and not changed:
            return signal, high
        steps = None if changed is None else deltas(changed)
        if changed is not None and steps == []:
            self._blur(changed)
            return signal, high
        m.restore(mark)
        if steps is None:
            return self._first_alone(low, high)
        return self._inductive(low, high, names, steps)

    def _carried_names(self) -> list[Cell]:
        scope = self.m.scope
        names = scope.names
        return [Cell(scope, names, n, names[n]) for n in self.carried if n in names]

    def _changed(self, names: list[Cell]) -> list[Cell] | None:
        """What the last visit changed for the next iteration; None if that cannot be told."""
        if self.changes.other:
            return None
        moved = [c for c in names if type_signature(c.old) != type_signature(c.new)]
        return [*moved, *self.changes.carried]

    def _first_alone(self, low: int, high: int) -> tuple[Signal | None, int]:
        """The first iteration differs from the others; where that goes on, each is alone."""
        self.unsettled += 1
        if self.unsettled > MAX_UNSETTLED or high - low <= FEW_TRIPS:
            raise NeedSplit(self._var, None)
        return self._visit(low, low + 1), low + 1

    def _blur(self, changed: list[Cell]) -> None:
        """Numbers that change and whose value does not matter are not known afterwards."""
        for cell in changed:
            unknown = Unknown("it changes from iteration to iteration", number=True)
            self.m.journal.set_item(cell.table, cell.key, unknown, cell.owner)

    def _inductive(
        self, low: int, high: int, names: list[Cell], steps: list[tuple[Cell, int]]
    ) -> tuple[Signal | None, int]:
        """Visit with integers that grow by a constant as linear forms of the variable."""
        m = self.m
        mark = m.snapshot()
        expected: list[Linear] = []

        def prepare(var: Var) -> None:
            step = subtract(symbol(var), low)
            for cell, delta in steps:
                value = add(cell.old, scale(step, delta))
                expected.append(value)
                m.journal.set_item(cell.table, cell.key, value, cell.owner)

        signal = self._visit(low, high, prepare=prepare)
        places = {(id(c.table), c.key) for c, _ in steps}
        changed = self._changed(names)
        others = [c for c in changed or () if (id(c.table), c.key) not in places]
        kept = changed is not None and deltas(others) == []
        for (cell, delta), before in zip(steps, expected, strict=True):
            after = cell.new
            if not isinstance(after, int | Affine) or subtract(after, before) != delta:
                kept = False
        if not kept:
            m.restore(mark)
            return self._first_alone(low, high)
        self._blur(others)
        for cell, delta in steps:
            m.journal.set_item(
                cell.table, cell.key, add(cell.old, delta * (high - low)), cell.owner
            )
        return signal, high

    def _visit(
        self,
        low: int,
        high: int,
        *,
        opaque: bool = False,
        prepare: Callable[[Var], None] | None = None,
    ) -> Signal | None:
        m = self.m
        var = self._var = Var(self.name, low, high, self.line, 0, opaque)
        appended, used = len(m.appended), len(m.used_lists)
        depth, start = len(m.loops), m.journal.mark()
        m.loops.append(var)
        many = var.trips > 1
        if many:
            m.touched.append({})
        try:
            if prepare is not None:
                prepare(var)
            try:
                item = self.over.item(symbol(var))
            except Undecided as why:
                item = Unknown(str(why))
            bind(m, self.target, item)
            signal = self.body()
        finally:
            del m.loops[depth:]
            first = m.touched.pop() if many else {}
        if many:
            if m.touched:
                for place, read in first.items():
                    m.touched[-1].setdefault(place, read)
            self.changes = changes_of(m.journal.entries[start:], var, first)
            if not self.changes.other:
                self._check_lists(var, appended, used)
                self._check_functions(var)
                self._wrap_lists(var)
                self._last_values(var)
        return signal

    def _check_lists(self, var: Var, appended: int, used: int) -> None:
        """A list that grows in the loop and is used there differs between iterations."""
        m = self.m
        grown = {id(items) for items, _ in m.appended[appended:] if var not in items.loops}
        grown -= self.changes.settled
        if grown and any(id(items) in grown for items in m.used_lists[used:]):
            raise split(((var, 1),), "a list that grows in a loop and is used there")

    def _check_functions(self, var: Var) -> None:
        """A function that outlives the iteration whose variables it knows is one of its own."""
        kept: list[Value] = [cell.new for cell in self.changes.cells]
        for grown in self.changes.grown:
            kept.extend(grown.owner.items[grown.length :])
        names = self.m.scope.names
        own = [
            value
            for value in (names.get(name) for name in self.assigned)
            if not (isinstance(value, Function) and value.scope is self.m.scope)
        ]
        if any(remembers(value, var) for value in (*kept, *own)):
            raise split(((var, 1),), "a function that knows an iteration's variables")

    def _wrap_lists(self, var: Var) -> None:
        """Items appended during a visit stand for one run of items per iteration."""
        for grown in self.changes.grown:
            owner, length = grown.owner, grown.length
            run = Repeat(var, var.low, var.high, tuple(owner.items[length:]))
            self.m.journal.replace(owner.items, [*owner.items[:length], run], owner)

    def _last_values(self, var: Var) -> None:
        """After the loop, what was set in it holds the last iteration's values."""
        m = self.m
        names = m.scope.names
        for name in self.assigned:
            if name in names:
                last = replace_var(names[name], var, var.high - 1)
                if last is not names[name]:
                    m.scope.assign(name, last)
        for cell in self.changes.cells:
            value = cell.new
            last = replace_var(value, var, var.high - 1)
            if last is not value:
                m.journal.set_item(cell.table, cell.key, last, cell.owner)


def _stored_names(target: ast.expr) -> list[str]:
    return [n.id for n in walk(target) if isinstance(n, ast.Name)]


def _cut(low: int, high: int, cuts: tuple[int, ...] | None) -> list[tuple[int, int]]:
    """Parts of ``[low, high)``; every iteration alone if no cut falls inside.

    Not all parts are written out where there are too many.
    """
    inside = sorted({c for c in cuts or () if low < c < high})
    if not inside:
        return [(i, i + 1) for i in range(low, min(high, low + MAX_PARTS + 1))]
    edges = [low, *inside, high]
    return list(pairwise(edges))


@evaluates(ast.ListComp, ast.GeneratorExp, ast.SetComp)
def _list_comprehension(m: Machine, node: ast.ListComp) -> Value:
    result = ListValue([], tuple(m.loops))

    def add_item() -> None:
        m.appended.append((result, len(result.items)))
        m.journal.append(result.items, m.eval(node.elt), result)

    _comprehend(m, node.generators, add_item)
    if isinstance(node, ast.SetComp):
        return make_set(m, written_out(result.items))
    return result


@evaluates(ast.DictComp)
def _dict_comprehension(m: Machine, node: ast.DictComp) -> Value:
    from accelopt_lsp.analysis.expressions import hashable

    result = m.new_dict({})

    def add_item() -> None:
        key = hashable(m.eval(node.key))
        m.set_entry(result, result, key, m.eval(node.value))

    _comprehend(m, node.generators, add_item)
    return result


def _comprehend(
    m: Machine, generators: list[ast.comprehension], add_item: Callable[[], None]
) -> None:
    outer, m.scope = m.scope, Scope(m.journal, m.scope, inner=True)
    try:
        _generate(m, generators, add_item)
    finally:
        m.scope = outer


def _generate(
    m: Machine, generators: list[ast.comprehension], add_item: Callable[[], None]
) -> None:
    if not generators:
        add_item()
        return
    first, *rest = generators
    value = m.eval(first.iter)
    use_up(m, value)
    found = iteration_of(value) if not isinstance(value, Unknown) else None
    if found is None:
        raise Undecided("a comprehension over something unknown")

    def body() -> Signal | None:
        for condition in first.ifs:
            known = truth(m, m.eval(condition))
            if known is None:
                raise Undecided("a condition of a comprehension is not known")
            if not known:
                return None
        _generate(m, rest, add_item)
        return None

    Loop(m, first, first.target, found, body).run()
