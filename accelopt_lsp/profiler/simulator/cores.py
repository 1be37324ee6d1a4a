"""Programs of a launch grid: one after the other, or in turn where they wait for each other.

Each program runs until it ends or has to wait for another one (``nisa.sendrecv``,
``nisa.core_barrier``); only then does the other one go on. Exactly one program runs at any time,
so what they compute does not depend on how threads are scheduled. Threads exist only for
programs that meet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, evolve, field

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.profiler.simulator.abridging_values import LoopIndex
from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.indexing import running_loops
from accelopt_lsp.profiler.simulator.library import entry_of

if TYPE_CHECKING:
    from accelopt_lsp.nki.lowering import Issue
    from accelopt_lsp.profiler.simulator.plans import Plan
    from accelopt_lsp.profiler.simulator.session import Session
    from accelopt_lsp.profiler.simulator.tensors import Tensor


class _Abandoned(BaseException):
    """Unwinds a program that nobody waits for any more."""


@define(slots=True, eq=False)
class Exchange:
    """One program's side of a ``sendrecv``.

    Attributes:
        rank: number of the program.
        to, source: the programs that it sends to and receives from.
    """

    rank: int
    src: Tensor
    dst: Tensor
    to: int
    source: int
    line: int


@define(slots=True, eq=False)
class Meeting:
    """What a program waits for: the other one's call with the same key."""

    key: tuple[Any, ...]
    line: int
    exchange: Exchange | None = None

    def describe(self) -> str:
        kind = self.key[0]
        detail = f" with pipe_id {self.key[1]}" if len(self.key) > 1 else ""
        return f"nisa.{kind}{detail} on line {self.line}"


@define(slots=True, eq=False)
class Program:
    """One program of the grid, and what of the session belongs to it alone while it waits."""

    number: int
    index: tuple[int, ...]
    core: tuple[int, ...]
    traced: bool
    started: bool = False
    ended: bool = False
    waiting: Meeting | None = None
    resume: threading.Semaphore = field(factory=lambda: threading.Semaphore(0))
    thread: threading.Thread | None = None
    pending: Any = None
    in_order: int = 0
    counts: dict[Any, int] = field(factory=dict)
    loops: list[LoopIndex] = field(factory=list)


class Cores:
    """Runs the programs of one launch.

    Attributes:
        programs: in the order in which they start.
        current: the one that is running.
        results: what each program returned, by number.
        compared: cores that are not traced note what they issue.
        issued_elsewhere: these notes, by core.
    """

    def __init__(
        self,
        session: Session,
        programs: Sequence[Program],
        run: Callable[[], Any],
    ) -> None:
        self.session = session
        self.programs = list(programs)
        self.current = self.programs[0]
        self.results: dict[int, Any] = {}
        self.compared = session.tracing and any(not p.traced for p in programs)
        self.issued_elsewhere: dict[tuple[int, ...], list[Issue]] = {}
        self._run = run
        self._failure: BaseException | None = None
        self._abandoned = False
        self._stores: dict[int, dict[str, Array]] = {}
        self._switches = 0

    def run(self) -> None:
        """Run all programs to their ends.

        Raises:
            BaseException: whatever a program raises.
        """
        try:
            for program in self.programs:
                if program.ended:
                    continue
                if program.started:
                    self._finish_elsewhere(program)
                else:
                    self._begin(program)
                    self._body(program)
        finally:
            self._abandon()

    def _begin(self, program: Program) -> None:
        if program is not self.current:
            self._note_switch(self.current, program)
        program.started = True
        self.current = program
        self._restore(program)

    def _body(self, program: Program) -> None:
        self.results[program.number] = self._run()
        self.session.flush()
        program.ended = True

    def _finish_elsewhere(self, program: Program) -> None:
        """Let a program that met this thread's one, and waits in its own thread, go on."""
        mine = self.current
        self._hand_over(mine, program)

    # Meetings.

    def meet(self, meeting: Meeting, plan: Plan) -> None:
        """Wait until the other program has made the same call.

        Raises:
            KernelRejected: it never will.
        """
        me = self.current
        other = self._partner(me, meeting)
        theirs = other.waiting
        if theirs is not None and theirs.key == meeting.key:
            other.waiting = None
            if theirs.exchange is not None and meeting.exchange is not None:
                self._swap(theirs.exchange, meeting.exchange, plan)
            return
        if other.ended:
            raise KernelRejected(
                f"program {me.number} waits at {meeting.describe()}, but program {other.number} "
                "ended without a matching call",
                "R088",
                meeting.line,
            )
        if theirs is not None:
            raise KernelRejected(
                f"program {me.number} waits at {meeting.describe()}, program {other.number} at "
                f"{theirs.describe()}: neither can go on",
                "R088",
                meeting.line,
            )
        me.waiting = meeting
        self._hand_over(me, other)
        if me.waiting is not None:
            raise KernelRejected(
                f"program {me.number} waits at {meeting.describe()}, but program {other.number} "
                "ended without a matching call",
                "R088",
                meeting.line,
            )

    def _partner(self, me: Program, meeting: Meeting) -> Program:
        others = [p for p in self.programs if p is not me]
        if len(others) != 1:
            raise KernelRejected(
                f"nisa.{meeting.key[0]} needs the two cores of a logical core; launch the kernel "
                f"as kernel[2], this grid has {len(self.programs)} programs",
                "R088",
                meeting.line,
            )
        return others[0]

    def _hand_over(self, me: Program, other: Program) -> None:
        """Let the other program run until it hands back."""
        self._note_switch(me, other)
        self._save(me)
        if other.started:
            other.resume.release()
        else:
            other.started = True
            other.thread = threading.Thread(target=self._thread, args=(other,), daemon=True)
            other.thread.start()
        me.resume.acquire()
        if self._abandoned:
            raise _Abandoned
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        self.current = me
        self._restore(me)

    def _thread(self, program: Program) -> None:
        self.current = program
        self._restore(program)
        other = next(p for p in self.programs if p is not program)
        try:
            with np.errstate(all="ignore"):
                self._body(program)
                self._note_switch(program, other)
        except _Abandoned:
            program.ended = True
            return
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._failure = error
            program.ended = True
        other.resume.release()

    def _abandon(self) -> None:
        """End the threads of programs that are still waiting."""
        self._abandoned = True
        for program in self.programs:
            thread = program.thread
            if thread is not None and thread is not threading.current_thread():
                program.resume.release()
                thread.join(timeout=1.0)

    def issued(self) -> list[Issue]:
        """What the traced core issued."""
        templates = self.session.trace.templates
        return [templates[number].issue for number, _ in self.session.records]

    def unlike(self) -> dict[int, list[Issue]]:
        """What cores issued that differs from the traced one's, by the core's number.

        Of several that issued the same, the first one only.
        """
        seen = [self.issued()]
        numbers = list(dict.fromkeys(program.core for program in self.programs))
        found = {}
        for core, issued in self.issued_elsewhere.items():
            if issued not in seen:
                seen.append(issued)
                found[numbers.index(core)] = issued
        return found

    # What belongs to one program only.

    def _save(self, program: Program) -> None:
        session = self.session
        program.pending, session.pending = session.pending, None
        program.in_order = session.in_order
        program.counts = session.shared.counts
        program.loops = list(running_loops())

    def _restore(self, program: Program) -> None:
        session = self.session
        session.program = program.index
        session.tracing = program.traced
        if self.compared and not program.traced:
            session.elsewhere = self.issued_elsewhere.setdefault(program.core, [])
        session.pending = program.pending
        session.in_order = program.in_order
        session.shared.counts = program.counts
        running_loops()[:] = program.loops

    def _note_switch(self, me: Program, other: Program) -> None:
        """Engines keep accumulators between instructions: each core has its own."""
        entry = entry_of("nisa.register_move", Dialect.CURRENT)
        plan = self.session.plan(entry, {"dst": None, "src": None})
        first, mine, theirs = self._switches == 0, me.number, other.number
        self._switches += 1
        stores = self._stores

        def switch(inputs: Any, attrs: Any) -> dict[str, Array]:
            if first:
                stores.clear()
            session = self.session
            stores[mine] = session.accumulators
            session.accumulators = stores.pop(theirs, {})
            return {}

        self._compute(plan, {}, (), (), switch, 0)

    # Values.

    def _swap(self, first: Exchange, second: Exchange, plan: Plan) -> None:
        """Both transfers of an exchange at once."""
        sides = {first.rank: first, second.rank: second}
        pairs = []
        for side in (first, second):
            sender = sides.get(side.source)
            if sender is None or sender.to != side.rank:
                raise KernelRejected(
                    f"program {side.rank} receives from program {side.source}, which sends to "
                    f"program {'?' if sender is None else sender.to}",
                    "R088",
                    side.line,
                )
            pairs.append((side, sender))
        self.transfer(pairs, plan)

    def transfer(self, pairs: Sequence[tuple[Exchange, Exchange]], plan: Plan) -> None:
        """Move tiles from senders to receivers; all are read before one is written.

        Raises:
            KernelRejected: shapes or data types differ.
        """
        operands: dict[str, Tensor] = {}
        for number, (receiver, sender) in enumerate(pairs):
            dst, src = receiver.dst, sender.src
            if dst.shape != src.shape or dst.element is not src.element:
                raise KernelRejected(
                    f"program {receiver.rank} receives {dst} on line {receiver.line}, program "
                    f"{sender.rank} sends {src} on line {sender.line}; shapes and types must be "
                    "equal",
                    "R027",
                    receiver.line,
                )
            operands[f"src{number}"] = src
            operands[f"dst{number}"] = dst
        reads = tuple(slot for slot in operands if slot.startswith("src"))
        writes = tuple(slot for slot in operands if slot.startswith("dst"))

        def move(inputs: Any, attrs: Any) -> dict[str, Array]:
            return {slot: inputs[f"src{slot[3:]}"].copy() for slot in writes}

        self._compute(plan, operands, reads, writes, move, pairs[0][0].line)

    def _compute(
        self,
        plan: Plan,
        operands: dict[str, Tensor],
        reads: tuple[str, ...],
        writes: tuple[str, ...],
        numeric: Callable[[Any, Any], dict[str, Array]],
        line: int,
    ) -> None:
        """Something between programs, now and whenever the trace is computed; no instruction."""
        slots = (*reads, *writes)
        step = evolve(
            plan.steps[0],
            slots=slots,
            reads=tuple((s, i) for i, s in enumerate(reads)),
            writes=tuple((s, i + len(reads)) for i, s in enumerate(writes)),
            numeric=numeric,
            exact=True,
        )
        session = self.session
        tracing, session.tracing = session.tracing, False
        elsewhere, session.elsewhere = session.elsewhere, None
        try:
            session._issue(plan, 0, step, operands, None, line, False, False, None)
        finally:
            session.tracing = tracing
            session.elsewhere = elsewhere


def sendrecv(session: Session, bound: dict[str, Any], plan: Plan, line: int) -> None:
    """``nisa.sendrecv`` of the running program, after its own instruction was issued."""
    cores = session.cores
    assert cores is not None
    me = cores.current.number
    mine = Exchange(
        me,
        bound["src"],
        bound["dst"],
        int(bound["send_to_rank"]),
        int(bound["recv_from_rank"]),
        line,
    )
    if mine.to == me and mine.source == me:
        cores.transfer([(mine, mine)], plan)
        return
    cores.meet(Meeting(("sendrecv", bound["pipe_id"]), line, mine), plan)


def core_barrier(session: Session, bound: dict[str, Any], plan: Plan, line: int) -> None:
    """``nisa.core_barrier`` of the running program, after its own instruction was issued."""
    cores = session.cores
    assert cores is not None
    named = bound["cores"]
    waiting = {named} if isinstance(named, int) else {int(c) for c in named}
    if waiting == {cores.current.number}:
        return
    cores.meet(Meeting(("core_barrier",), line), plan)
