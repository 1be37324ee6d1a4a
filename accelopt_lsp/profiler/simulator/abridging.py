"""Traces in which most iterations of a loop are not run but continued from those that were.

A kernel's Python costs some ten microseconds an instruction, and most of what it does is the same
in every iteration. Here a loop's body runs until two iterations in a row are proved to do the same
up to a constant step; then as many are left out as are proved to do so too, what they would have
added to the trace is written from the steps (:mod:`.abridging_records`), and what Python holds is
moved to where the last of them would have left it. The trace equals that of the full run.

**The argument.** Let ``S(t)`` be what the body can reach when iteration ``t`` ends
(:mod:`.abridging_state`). Say that an iteration *moves* the one before if everything is the same
except that each value that depends on the loop's variable has changed by its own constant, each
tile that was made in the loop has become the one made at the same place an iteration later, and
each position in the trace lies as many records further as an iteration has.

1. If ``S(t-2)`` and ``S(t-1)`` differ by such a move, iteration ``t`` begins where ``t-1`` began,
   moved. Python is deterministic and so is the simulator; a step that computes with affine values
   keeps the move; and tiles are numbered in order. So iteration ``t`` can differ from
   ``t-1`` by more than a move only if something is *decided* by a value that moves.
2. Every such decision is noted where it falls (:mod:`.abridging_values`), with the number of
   iterations in which it falls the same way: comparisons of kernel or simulator (bounds of
   indices, where a mask begins and ends, rows of an offset) are signs of affine forms, so they
   hold up to an iteration that is computed; whatever else wants an integer holds for one
   iteration. The least of these is the loop's ``limit``. Blocks of a tensor with block dimensions,
   which are looked up by index, are checked one by one instead.
3. So if iteration ``t-1``'s decisions hold in ``t``, and those of ``t`` hold before ``limit``, all
   iterations from ``t`` up to ``limit`` are the same up to moves, and each number in their records
   is an arithmetic progression, known from the two that ran. Iteration ``limit`` runs again.
4. In a nest, an inner loop has left out iterations of its own. Decisions on values that depend on
   both variables are affine in both, so in the outer loop they hold wherever they hold for the
   first and the last of what the inner loop left out; they are noted for both.

A loop is run in full unless it is a ``for`` statement over the call of a range (so that the only
thing that lasts between iterations is in variables), everything in reach can be seen through, and
nothing in reach changes otherwise than by a move: no counter, no growing list, no dictionary that
is filled, no attribute that changes. So are loops in which programs meet, registers or run-time
addresses are used, or ``nl.loop_reduce`` adds up. Where values are computed, or recorded to be
computed, nothing is abridged at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from attrs import define, field

from accelopt_lsp.profiler.simulator.abridging_blocks import (
    Access,
    held,
    note,
    prepare,
    release,
)
from accelopt_lsp.profiler.simulator.abridging_code import ForStatement, for_statement
from accelopt_lsp.profiler.simulator.abridging_reach import Reach, TypesTold, Unprovable
from accelopt_lsp.profiler.simulator.abridging_records import (
    add_iterations,
    add_storages,
    more_records,
    same_but_new,
    same_issues,
    same_storages,
)
from accelopt_lsp.profiler.simulator.abridging_state import Snapshot
from accelopt_lsp.profiler.simulator.abridging_values import (
    FullTraceNeeded,
    Loop,
    LoopIndex,
    LoopValue,
    loops_of,
    spread,
)
from accelopt_lsp.profiler.simulator.blocks import BlockTable
from accelopt_lsp.profiler.simulator.indexing import _NEST, counted

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.session import Session

LEAST_ITERATIONS = 3
"""Shorter loops run in full: two iterations run in any case."""
_WORTH = 5
"""Records that looking at what an iteration leaves must save at least."""
_ATTEMPTS = 4
"""Pairs of iterations of one execution that are compared without success before it is given up."""
_VAIN = 8
"""Iterations in a row that hold for themselves only, before an execution is given up.

As many executions in a row that leave nothing out, before the loop is not tried again.
"""
_FAILURES = 3
"""Executions of one loop that are given up, before it is not tried again."""


@define(slots=True, eq=False)
class _Past:
    """Where an iteration that has ended stands in the trace, and what it left.

    Attributes:
        records, storages, iterations, issued: counts when it began.
        limit: see :class:`Loop`.
        snapshot: what was in reach at its end; None where nobody looked.
        alike: it moved the iteration before.
        moves: tiles that are in reach at its end were made in it.
    """

    records: int
    storages: int
    iterations: int
    issued: int
    limit: int = 0
    snapshot: Snapshot | None = None
    alike: bool = False
    moves: bool = False
    accesses: list[Access] = field(factory=list)


class Abridging:
    """Abridges the loops of one session.

    Attributes:
        executed, skipped: iterations of the loops that were tried: run, and left out.
        misled: :class:`FullTraceNeeded` was raised, whatever the kernel made of it.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.executed = 0
        self.skipped = 0
        self.misled = False
        self._serial = 0
        self._reach = Reach()
        self._failures: dict[tuple[int, int], int] = {}
        self._paths: dict[int, list[tuple[Any, int]]] = {}
        self._small: dict[tuple[int, int], int] = {}
        self._vain: dict[tuple[int, int], int] = {}
        self._codes: dict[tuple[int, int], CodeType] = {}

    def loop(self, span: range, frame: FrameType) -> Iterator[Any]:
        """Run a loop whose range the frame of user code has just made."""
        if len(span) < LEAST_ITERATIONS or not self.session.tracing:
            return counted(span)
        site = (id(frame.f_code), frame.f_lasti)
        statement = for_statement(frame.f_code, frame.f_lasti)
        if statement is None or self._failures.get(site, 0) >= _FAILURES:
            return counted(span)
        size = self._small.get(site)
        if size is not None and size * (len(span) - 2) < _WORTH:
            return counted(span)
        if self._vain.get(site, 0) >= _VAIN or self._reach.hidden(frame.f_code, frame.f_globals):
            return counted(span)
        return self._run(span, frame, statement, site)

    def serial(self) -> int:
        """A number for something that begins."""
        self._serial += 1
        return self._serial

    def _run(
        self, span: range, frame: FrameType, statement: ForStatement, site: tuple[int, int]
    ) -> Iterator[LoopValue]:
        session = self.session
        trace, records = session.trace, session.records
        iterations = trace.iterations
        nest: list[Any] = _NEST
        depth, count = len(nest), len(span)
        loop = Loop(depth, count, self.serial())
        terms = ((loop, span.step),)
        self._codes[site] = frame.f_code
        # What was in reach before the loop counts as the end of an iteration.
        past = [_Past(-1, -1, -1, -1)]
        number, value, start = 0, span.start, -1
        attempts, vain, success = _ATTEMPTS, _VAIN, False
        self._look(past[0], loop, frame, statement)
        try:
            while number < count:
                value = span[number]
                loop.begin(number)
                index: Any
                if attempts and vain:
                    index = LoopValue(value, terms, loop)
                else:
                    # Given up, so there is nothing to be noted.
                    index = LoopIndex(value)
                    index.run, index.last = loop, number == count - 1
                if number == 0:
                    nest.append(index)
                else:
                    nest[depth] = index
                start = len(records)
                del past[:-1]
                past.append(_Past(start, len(trace.storages), len(iterations), session.issued))
                yield index
                iterations.extend((depth, value, start, len(records)))
                size = len(records) - start
                start = -1
                number += 1
                self.executed += 1
                if number == 1:
                    self._small[site] = size
                if not attempts or not vain or size * (count - number) < _WORTH:
                    continue
                if frame.f_lasti not in statement.places:
                    continue
                skipped = self._advance(loop, past, frame, statement)
                if skipped > 0:
                    number += skipped
                    success = True
                    attempts, vain = _ATTEMPTS, _VAIN
                    past.clear()
                elif skipped < 0:
                    attempts -= 1
                elif loop.limit <= number:
                    vain -= 1
                else:
                    vain = _VAIN
            if success:
                self._vain[site] = 0
            else:
                self._vain[site] = self._vain.get(site, 0) + 1
                if attempts < _ATTEMPTS or not vain:
                    self._failures[site] = self._failures.get(site, 0) + 1
        finally:
            if start >= 0:
                # Left by break, return or an error.
                iterations.extend((depth, value, start, len(records)))
            loop.alive = False
            del nest[depth:]

    def _look(self, now: _Past, loop: Loop, frame: FrameType, statement: ForStatement) -> None:
        try:
            now.snapshot = Snapshot(self.session, frame, statement.carried, loop, self._reach)
        except TypesTold:
            raise self.full_trace_needed() from None
        except Unprovable:
            now.snapshot = None

    def _advance(
        self, loop: Loop, past: list[_Past], frame: FrameType, statement: ForStatement
    ) -> int:
        """Iterations that were left out after this one; -1 where it is not like the one before."""
        now = past[-1]
        now.limit = loop.limit
        if loop.limit <= loop.number + 1 and loop.number:
            return 0
        now.accesses = list(loop.accesses.values())
        before = past[-2] if len(past) > 1 else None
        self._look(now, loop, frame, statement)
        if now.snapshot is None:
            return -1
        if before is None or before.snapshot is None:
            return 0
        storages = len(self.session.trace.storages) - now.storages
        records = len(self.session.records) - now.records
        now.alike = now.snapshot.continues(before.snapshot, storages, records)
        now.moves = now.snapshot.numbers[1] != before.snapshot.numbers[1]
        if not now.alike:
            return -1
        # The state before the older of the two iterations is moved as well.
        if not before.alike or before.limit <= loop.number or now.limit <= loop.number + 1:
            return 0
        return self._skip(loop, before, now)

    def _skip(self, loop: Loop, before: _Past, now: _Past) -> int:
        session = self.session
        trace = session.trace
        storages = len(trace.storages) - now.storages
        size = len(session.records) - now.records
        entries = len(trace.iterations) - now.iterations
        old, new = session.records[before.records : now.records], session.records[now.records :]
        if (
            len(old) != size
            or now.iterations - before.iterations != entries
            or not same_issues(old, new)
        ):
            return -1
        assert now.snapshot is not None and before.snapshot is not None
        moved = now.snapshot.moved(before.snapshot)
        old_tiles, new_tiles = (
            trace.storages[before.storages : now.storages],
            trace.storages[now.storages :],
        )
        if not same_storages(old_tiles, new_tiles) and (
            moved
            or before.moves
            or loop.once
            or not same_but_new(old, new, before.storages, now.storages)
        ):
            return -1
        accesses = self._accesses(loop, before, now)
        if accesses is None:
            return -1
        count = loop.limit - loop.number - 1
        issued = session.issued - now.issued
        if session.issued + count * issued > session.instruction_limit:
            return -1
        if not held(loop, moved, accesses):
            return -1
        count = prepare(accesses, loop, now.storages, storages, count)
        if count <= 0:
            return -1
        release(accesses, moved)
        now.snapshot.move(moved, count, storages, size)
        more = more_records(old, new, now.storages, storages, count)
        session.records.extend(more)  # type: ignore[arg-type]
        add_storages(trace, now.storages, now.records, size, count)
        add_iterations(trace, before.iterations, now.iterations, count)
        session.issued += count * issued
        self.skipped += count
        spread(loop, count)
        for access in accesses:
            step = access.step(loop)
            terms = tuple([term for term in access.terms if term[0] is not loop])
            spans = (*access.spans, (count, step))
            note(Access(access.table, access.place + step, terms, spans, access.fresh))
        return count

    # Loop reductions.

    def reduced(self, site: int) -> None:
        """Note that a loop reduction is reached.

        Raises:
            FullTraceNeeded: it was reached here before, or will be told apart by how often.
        """
        path = [(_run_of(index), plain_index(index)) for index in _NEST]
        last = self._paths.get(site)
        self._paths[site] = path
        if last is None:
            return
        for number, (here, there) in enumerate(zip(path, last)):  # noqa: B905 - to the shorter
            if here[0] is not there[0]:
                # Another execution of a loop: one of the loops around must have gone on.
                if number == 0:
                    raise self.full_trace_needed()
                return
            if here[1] != there[1]:
                return
        raise self.full_trace_needed()

    def full_trace_needed(self) -> FullTraceNeeded:
        """An exception that ends this run."""
        self.misled = True
        return FullTraceNeeded()

    # Tensors with block dimensions.

    def once(self) -> None:
        """Something is made that everything after it finds."""
        nest: list[Any] = _NEST
        for index in nest:
            if type(index) is LoopValue and index.loop is not None:
                index.loop.once = True

    def made(self, table: BlockTable, key: tuple[Any, ...]) -> None:
        """Note that a block is made: once and for all, unless its index moves."""
        nest: list[Any] = _NEST
        for index in nest:
            if type(index) is not LoopValue:
                continue
            loop = index.loop
            if loop is not None and table.serial < loop.serial:
                if not any(loop in loops_of(part) for part in key):
                    loop.once = True

    def _accesses(self, loop: Loop, before: _Past, now: _Past) -> list[Access] | None:
        """This iteration's accesses; None where they are not those of the one before, moved."""
        expected = {access.name(access.step(loop)) for access in before.accesses}
        found = {access.name() for access in now.accesses}
        if expected != found or any(a.table.serial > loop.serial for a in now.accesses):
            return None
        return now.accesses


def _run_of(index: Any) -> Any:
    """The execution of a loop that an index is of."""
    return index.loop if type(index) is LoopValue else index.run


def plain_index(index: LoopIndex | LoopValue) -> int:
    """Value of a loop's variable, which decides nothing."""
    return index.value if type(index) is LoopValue else int(index)
